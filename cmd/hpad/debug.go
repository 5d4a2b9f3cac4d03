package main

import (
	"fmt"
	"io"
	"maps"
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
		Short: "Inspect a running daemon",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newProfileCommand(stream))
	return cmd
}

// cpuProfile is the command line's name for the profile that net/http/pprof calls "profile".
const cpuProfile = "cpu"

// profileSeconds returns api.ProfileSeconds with the names that the command line uses.
func profileSeconds() map[string]int {
	kinds := maps.Clone(api.ProfileSeconds)
	kinds[cpuProfile] = kinds["profile"]
	delete(kinds, "profile")
	return kinds
}

func newProfileCommand(stream streams) *cobra.Command {
	kinds := profileSeconds()
	names := slices.Sorted(maps.Keys(kinds))
	var file string
	var seconds int
	cmd := &cobra.Command{
		Use:   "profile [" + strings.Join(names, "|") + "]",
		Short: "Fetch a cpu, memory or other profile of the daemon",
		Long: `Fetch a profile of the daemon into a file for the Go tools. The default is cpu.

cpu and trace record for some seconds; allocs, heap and goroutine are snapshots. The
daemon takes one profile at a time.`,
		Example:   "  hpad debug profile --seconds 60\n  hpad debug profile heap --file hpad.heap",
		ValidArgs: names,
		Args:      cobra.MatchAll(cobra.MaximumNArgs(1), knownProfile(names)),
	}
	client := addConnectFlags(cmd)
	cmd.Flags().StringVar(&file, "file", "", "output `file` (default: hpad-KIND-TIME in the current directory)")
	cmd.Flags().IntVar(&seconds, "seconds", 0, fmt.Sprintf("duration of cpu (default 30) or trace (default 5) in `seconds`, at most %d", api.MaxProfileSeconds))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name := strings.Join(append(args, cpuProfile)[:1], "")
		fallback := kinds[name]
		given := cmd.Flags().Changed("seconds")
		switch {
		case given && fallback == 0:
			return wrongUse(fmt.Errorf("--seconds: %s is a snapshot", name), helpHint(cmd))
		case given && (seconds < 1 || seconds > api.MaxProfileSeconds):
			return wrongUse(fmt.Errorf("--seconds %d: must be from 1 to %d", seconds, api.MaxProfileSeconds), helpHint(cmd))
		case !given:
			seconds = fallback
		}
		kind := name
		if name == cpuProfile {
			kind = "profile"
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
		size, err := writeWhole(file, "profile", func(to io.Writer) error { return client().Profile(cmd.Context(), kind, seconds, to) })
		if err != nil {
			return err
		}
		return say(stream.out, fmt.Sprintf("%s: %s; open it with: %s %s\n", file, units.HumanSize(float64(size)), tool, file))
	}
	return cmd
}

func knownProfile(names []string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		for _, name := range args {
			if !slices.Contains(names, name) {
				return wrongUse(fmt.Errorf("no profile named %q", name), "the profiles are "+strings.Join(names, ", "))
			}
		}
		return nil
	}
}
