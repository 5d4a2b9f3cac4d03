package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"github.com/hpad/hpad/cmd/hpad/hint"
	"github.com/hpad/hpad/cmd/hpad/show"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/targets"
)

func newLogsCommand(stream streams) *cobra.Command {
	query := targets.LogQuery{Lines: api.DefaultLogLines}
	var all bool
	cmd := &cobra.Command{
		Use:        "logs NAME [INSTANCE]",
		SuggestFor: []string{"log", "output", "tail"},
		Short:      "Print the output of an instance",
		Long: `Print the last lines of the output of an instance of an autoscaler, for processes, systemd
units and containers of Compose and Swarm. Without INSTANCE, hpad chooses a ready one. The
output can contain secrets.

With --follow, the command continues when the instance restarts. When the instance ends for
good, it prints an error and returns 1.`,
		Example: "  hpad logs checkout\n  hpad logs checkout checkout-3 -f\n  hpad logs checkout checkout-3 --previous\n  hpad logs checkout --all -n 10",
		Args:    cobra.RangeArgs(1, 2),
	}
	client := addConnectFlags(cmd)
	cmd.Flags().BoolVarP(&query.Follow, "follow", "f", false, "also print new output")
	cmd.Flags().IntVarP(&query.Lines, "tail", "n", query.Lines, fmt.Sprintf("`number` of last lines, at most %d", api.MaxLogLines))
	cmd.Flags().BoolVarP(&query.Previous, "previous", "p", false, "print the output before the last start of the instance")
	cmd.Flags().BoolVar(&all, "all", false, "print the output of all instances, with their names")
	cmd.ValidArgsFunction = completeNames(client, 1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case query.Lines < 1 || query.Lines > api.MaxLogLines:
			return wrongUse(fmt.Errorf("--tail must be from 1 to %d", api.MaxLogLines), helpHint(cmd))
		case query.Follow && query.Previous:
			return wrongUse(errors.New("--follow and --previous are mutually exclusive"), helpHint(cmd))
		case all && len(args) == 2:
			return wrongUse(errors.New("--all and INSTANCE are mutually exclusive"), helpHint(cmd))
		}
		_, name, err := find(cmd.Context(), client(), args[0])
		if err != nil {
			return suggestName(cmd.Context(), client(), args[0], err)
		}
		l := logs{client: client(), name: name, query: query, stream: stream}
		if len(args) == 2 {
			err = l.one(cmd.Context(), args[1], args[1])
		} else {
			err = l.chosen(cmd.Context(), all)
		}
		if cmd.Context().Err() != nil {
			return nil // Ctrl-C
		}
		return err
	}
	return cmd
}

// logs prints the output of the instances of one autoscaler.
type logs struct {
	client *api.Client
	name   string
	query  targets.LogQuery
	stream streams
}

// chosen prints the output of one instance, preferably of a ready one, or of all instances.
func (l *logs) chosen(ctx context.Context, all bool) error {
	list, err := api.Get[api.InstanceList](ctx, l.client.WithCleaning(nil), api.Path("autoscalers", l.name, "instances"), nil)
	switch {
	case err != nil:
		return err
	case list.Error != "":
		return errors.New(list.Error)
	case len(list.Instances) == 0:
		return fmt.Errorf("autoscaler %q has no instances", l.name)
	case all:
		return l.all(ctx, list.Instances)
	}
	rank := func(i api.Instance) int {
		switch {
		case i.Deleting:
			return 3
		case i.Phase != "Running":
			return 2
		case i.Readiness != "True":
			return 1
		}
		return 0
	}
	first := slices.MinFunc(list.Instances, func(a, b api.Instance) int { return cmp.Compare(rank(a), rank(b)) })
	if count := len(list.Instances); count > 1 {
		notice(l.stream.err, "note", "%s has %d instances, using %s; --all prints the output of all", l.name, count, nameOf(first))
	}
	return l.one(ctx, first.ID, nameOf(first))
}

// nameOf returns the name of an instance, or its ID if it has no name.
func nameOf(i api.Instance) string { return cmp.Or(i.Name, i.ID) }

// one prints the output of an instance, given its ID or name. name is used in messages.
func (l *logs) one(ctx context.Context, instance, name string) error {
	empty := true
	err := l.client.Logs(ctx, l.name, instance, l.query, func(line string) error {
		empty = false
		_, err := fmt.Fprintln(l.stream.out, show.Clean(line))
		return err
	})
	if err == nil && l.query.Follow {
		return hint.With(fmt.Errorf("instance %s of %s has ended", name, l.name), fmt.Sprintf("\"hpad describe %s\" shows its instances", l.name))
	}
	if err == nil && empty {
		notice(l.stream.err, "note", "there is no output of the instance; \"hpad describe %s\" shows its state", l.name)
	}
	return err
}

// all prints the output of instances with their names. It prints new output of all instances at the
// same time.
func (l *logs) all(ctx context.Context, instances []api.Instance) error {
	if l.query.Follow && len(instances) > api.MaxLong {
		return fmt.Errorf("%s has %d instances, and --all follows at most %d: choose an instance", l.name, len(instances), api.MaxLong)
	}
	group, ctx := guard.WithContext(ctx)
	if !l.query.Follow {
		group.SetLimit(1) // in the order of the instances
	}
	var mu sync.Mutex
	for _, instance := range instances {
		group.Go(func() error {
			err := l.client.Logs(ctx, l.name, instance.ID, l.query, func(line string) error {
				mu.Lock()
				defer mu.Unlock()
				_, err := io.WriteString(l.stream.out, show.Clean("["+nameOf(instance)+"] "+line)+"\n")
				return err
			})
			if err == nil && l.query.Follow {
				mu.Lock()
				defer mu.Unlock()
				notice(l.stream.err, "note", "instance %s has ended", nameOf(instance))
			}
			return err
		})
	}
	if err := group.Wait(); err != nil || !l.query.Follow {
		return err
	}
	return fmt.Errorf("all instances of %s have ended", l.name)
}
