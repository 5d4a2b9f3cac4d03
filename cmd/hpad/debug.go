package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"github.com/hpad/hpad/daemon/api"
)

func newDebugCommand(stream streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "debug",
		Short: "Look into a running daemon",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newProfileCommand(stream))
	return cmd
}

// cpuProfile is what the command line calls the profile that Go's tools call profile.
const cpuProfile = "cpu"

// profileKinds are the kinds of profiles by what the command line calls them.
func profileKinds() map[string]api.ProfileKind {
	kinds := map[string]api.ProfileKind{}
	for _, kind := range api.ProfileKinds {
		name := kind.Name
		if name == "profile" {
			name = cpuProfile
		}
		kinds[name] = kind
	}
	return kinds
}

func newProfileCommand(stream streams) *cobra.Command {
	kinds := profileKinds()
	names := make([]string, 0, len(kinds))
	for name := range kinds {
		names = append(names, name)
	}
	slices.Sort(names)
	var file string
	var seconds int
	cmd := &cobra.Command{
		Use:   "profile [" + strings.Join(names, "|") + "]",
		Short: "Fetch a profile of the daemon: where its time or its memory goes",
		Long: `Fetch a profile of the daemon into a file, for Go's own tools; without a word,
that of the processor.

cpu, trace, block and mutex look at what happens for some seconds; allocs, heap
and goroutine at what there is. The daemon takes one at a time.`,
		Example:   "  hpad debug profile --seconds 60\n  hpad debug profile heap --file hpad.heap",
		ValidArgs: names,
		Args:      cobra.MatchAll(cobra.MaximumNArgs(1), knownProfile(names)),
	}
	client := addConnectFlags(cmd)
	cmd.Flags().StringVar(&file, "file", "", "the `file` to write; hpad-KIND-TIME in the current directory when left out")
	cmd.Flags().IntVar(&seconds, "seconds", 0, fmt.Sprintf("for how long it is taken, at most %d; 30 of cpu, 10 of block and mutex, and 5 of trace when left out", api.MaxProfileSeconds))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name := strings.Join(append(args, cpuProfile)[:1], "")
		kind := kinds[name]
		given := cmd.Flags().Changed("seconds")
		switch {
		case given && kind.Seconds == 0:
			return wrongUse(fmt.Errorf("--seconds: %s is of an instant", name), helpHint(cmd))
		case given && (seconds < 1 || seconds > api.MaxProfileSeconds):
			return wrongUse(fmt.Errorf("--seconds %d: must be from 1 to %d", seconds, api.MaxProfileSeconds), helpHint(cmd))
		case !given:
			seconds = kind.Seconds
		}
		tool, ending := "go tool pprof -http=:", ".pprof"
		if name == "trace" {
			tool, ending = "go tool trace", ".trace"
		}
		if file == "" {
			file = "hpad-" + name + "-" + time.Now().UTC().Format("20060102T150405Z") + ending
		}
		if seconds > 0 {
			_, _ = fmt.Fprintf(stream.err, "taking a profile for %d s\n", seconds)
		}
		size, err := writeWhole(file, "profile", func(to io.Writer) error { return client().Profile(cmd.Context(), kind.Name, seconds, to) })
		if err != nil {
			return err
		}
		return say(stream.out, fmt.Sprintf("%s: %s; look at it with: %s %s\n", file, units.HumanSize(float64(size)), tool, file))
	}
	return cmd
}

func knownProfile(names []string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		for _, name := range args {
			if !slices.Contains(names, name) {
				return wrongUse(fmt.Errorf("there is no profile %q", name), "there are "+strings.Join(names, ", "))
			}
		}
		return nil
	}
}
