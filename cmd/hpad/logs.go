package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/hpad/hpad/cmd/hpad/hint"
	"github.com/hpad/hpad/cmd/hpad/show"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/targets"
)

func newLogsCommand(stream streams) *cobra.Command {
	query := targets.LogQuery{Lines: api.DefaultLogLines}
	cmd := &cobra.Command{
		Use:        "logs NAME [INSTANCE]",
		SuggestFor: []string{"log", "output", "tail"},
		Short:      "Print the output of instances",
		Long: `Print the last lines of the output of one instance, or of all instances of an autoscaler.
NAME is an autoscaler, its target or an instance, as "hpad describe" shows it. The command
supports processes, systemd units (their lines in the journal) and containers of Compose and
Swarm. The output can contain secrets.`,
		Example: "  hpad logs checkout\n  hpad logs checkout-3 -f\n  hpad logs checkout checkout-3 -n 1000",
		Args:    cobra.RangeArgs(1, 2),
	}
	client := addConnectFlags(cmd)
	cmd.Flags().BoolVarP(&query.Follow, "follow", "f", false, "also print new output")
	cmd.Flags().IntVarP(&query.Lines, "tail", "n", query.Lines, fmt.Sprintf("`number` of last lines per instance, at most %d", api.MaxLogLines))
	cmd.ValidArgsFunction = completeNames(client, 1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if query.Lines < 1 || query.Lines > api.MaxLogLines {
			return wrongUse(fmt.Errorf("--tail %d: must be from 1 to %d", query.Lines, api.MaxLogLines), helpHint(cmd))
		}
		raw := client().WithCleaning(nil)
		name, instances, err := findInstances(cmd.Context(), raw, args)
		if err != nil {
			return suggestName(cmd.Context(), client(), args[0], err)
		}
		if len(instances) > show.MaxInstances && query.Follow {
			return wrongUse(fmt.Errorf("--follow: %q has %d instances, at most %d can be followed", name, len(instances), show.MaxInstances), "add an INSTANCE")
		}
		return printLogs(cmd.Context(), stream.out, raw, name, instances, query)
	}
	return cmd
}

// findInstances returns the instances to print, and their autoscaler. The first argument may be an
// instance of any autoscaler.
func findInstances(ctx context.Context, client *api.Client, args []string) (string, []api.Instance, error) {
	_, name, err := find(ctx, client, args[0])
	if err == nil {
		list, err := client.Instances(ctx, name)
		if err == nil && list.Error != "" {
			err = errors.New(list.Error)
		}
		found := withName(list.Instances, args[1:])
		if err == nil && len(found) == 0 && len(args) == 2 {
			err = hint.With(fmt.Errorf("no instance %q of %q", args[1], name), fmt.Sprintf("\"hpad describe %s --instances\" lists the instances", name))
		}
		return name, found, err
	}
	if !errors.Is(err, api.ErrNotFound) || len(args) == 2 {
		return "", nil, err
	}
	for listed, failed := range client.EachBriefly(ctx) {
		if failed != nil {
			return "", nil, failed
		}
		list, failed := client.Instances(ctx, listed.Name)
		if found := withName(list.Instances, args); failed == nil && len(found) > 0 {
			return listed.Name, found[:1], nil
		}
	}
	return "", nil, err
}

// withName returns the instances with one of the given IDs or names. Without any, it returns all.
func withName(all []api.Instance, names []string) []api.Instance {
	return slices.DeleteFunc(slices.Clone(all), func(i api.Instance) bool {
		return len(names) > 0 && !slices.Contains(names, show.Clean(i.ID)) && !slices.Contains(names, show.Clean(i.Name))
	})
}

// printLogs prints the output of instances, one after the other or, with Follow, at the same time.
// The lines of several instances begin with the name of the instance.
func printLogs(ctx context.Context, out io.Writer, client *api.Client, name string, instances []api.Instance, query targets.LogQuery) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines, done := make(chan string), make(chan error, 1)
	go func() { done <- readLogs(ctx, client, name, instances, query, lines) }()
	for {
		select {
		case line := <-lines:
			if _, err := io.WriteString(out, line+"\n"); err != nil {
				return err
			}
		case err := <-done:
			if ctx.Err() != nil {
				return nil // Ctrl-C
			}
			return err
		}
	}
}

func readLogs(ctx context.Context, client *api.Client, name string, instances []api.Instance, query targets.LogQuery, lines chan<- string) error {
	reads, ctx := errgroup.WithContext(ctx)
	if !query.Follow {
		reads.SetLimit(1)
	}
	for _, i := range instances {
		prefix := ""
		if len(instances) > 1 {
			prefix = show.InstanceName(&i) + " | "
		}
		reads.Go(func() error {
			return client.Logs(ctx, name, i.ID, query, func(line []byte) error {
				select {
				case lines <- prefix + show.Clean(strings.TrimRight(string(line), "\r\n")):
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
		})
	}
	return reads.Wait()
}
