package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"github.com/hpad/hpad/cmd/hpad/hint"
	"github.com/hpad/hpad/cmd/hpad/show"
	"github.com/hpad/hpad/daemon/cluster"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/daemon/state"
)

func newStateCommand(stream streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "state",
		Short: "Move, copy and check what hpad remembers",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newExportCommand(stream), newImportCommand(stream), newStateCheckCommand(stream))
	return cmd
}

// stateDirFlag adds the flag for the directory of a state.
func stateDirFlag(cmd *cobra.Command, usage string) *string {
	return cmd.Flags().String("state-dir", "", usage)
}

func newExportCommand(stream streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write what hpad remembers as JSON Lines",
		Long: `Write what hpad remembers as JSON Lines, for "hpad state import": windows, rates,
pauses, counts and what else decisions depend on, and the history of decisions.
The daemon goes on meanwhile. Without one, --state-dir names the directory.

Of a cluster any member writes all that is shared, with its own history. Without a
daemon, --config names a configuration with [ha], whose store is read.

An export has everything, also the contents of secrets that a fleet keeps for its
containers: who may read it may know them.`,
		Example: "  hpad state export --file hpad.jsonl\n  hpad state export --no-history | gzip > hpad.jsonl.gz",
		Args:    cobra.NoArgs,
	}
	client := addConnectFlags(cmd)
	dir := stateDirFlag(cmd, "read the state in this `directory`, which no daemon uses, not that of the daemon")
	configured := cmd.Flags().String("config", "", "read the state that this configuration `file` names, which no daemon uses, and with [ha] that in the cluster's store")
	file := cmd.Flags().String("file", "", "the `file` to write, for its owner alone; the output when left out")
	without := cmd.Flags().Bool("no-history", false, "leave the history of decisions out")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		export := func(to io.Writer) error {
			switch {
			case *dir != "":
				return state.ExportDir(cmd.Context(), *dir, to, !*without, nil)
			case *configured != "":
				return exportConfigured(cmd.Context(), *configured, to, !*without)
			}
			return client().ExportState(cmd.Context(), to, !*without)
		}
		if *file == "" {
			return export(stream.out)
		}
		size, err := writeWhole(*file, "export", export)
		if err != nil {
			return err
		}
		return say(stream.out, fmt.Sprintf("%s: %s\n", *file, units.HumanSize(float64(size))))
	}
	return cmd
}

// exportConfigured exports the state that a configuration names.
func exportConfigured(ctx context.Context, file string, to io.Writer, history bool) error {
	c, err := config.Load(file)
	if err != nil {
		return err
	}
	if c.HA == nil {
		return state.ExportDir(ctx, c.Daemon.StateDir, to, history, nil)
	}
	coordinator, err := newCoordinator(c.HA)
	if err != nil {
		return err
	}
	defer func() { _ = coordinator.Close() }()
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	fleets, err := cluster.ReadAll(ctx, coordinator)
	if err != nil {
		return err
	}
	histories, err := filepath.Glob(filepath.Join(fleetsDir(c), "*"))
	if err != nil {
		return err
	}
	return state.ExportDir(ctx, c.Daemon.StateDir, to, history, fleets, histories...)
}

// storeWait bounds how long a cluster's store is waited for.
const storeWait = 5 * time.Minute

// sharer returns what puts the state of the fleets that a configuration shares into the
// cluster's store; nil where it shares none.
func sharer(ctx context.Context, c *config.Config) func(map[string][]byte, func(map[string][]byte) error) error {
	if c == nil || c.HA == nil {
		return nil
	}
	return func(values map[string][]byte, keep func(own map[string][]byte) error) error {
		coordinator, err := newCoordinator(c.HA)
		if err != nil {
			return err
		}
		defer func() { _ = coordinator.Close() }()
		ctx, cancel := context.WithTimeout(ctx, storeWait)
		defer cancel()
		if err := cluster.Fill(ctx, coordinator, c, values, keep); err != nil {
			return fmt.Errorf("the state of the fleets that members share: %w", err)
		}
		return nil
	}
}

// writeWhole writes a file, an export or what else it is, whole or not at all, and returns its size in bytes.
func writeWhole(file, what string, write func(io.Writer) error) (size int64, err error) {
	part, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*")
	if err != nil {
		return 0, fmt.Errorf("write the %s: %w", what, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(part.Name())
		}
	}()
	if err := write(part); err != nil {
		return 0, errors.Join(err, part.Close())
	}
	info, err := part.Stat()
	if err = errors.Join(err, part.Close()); err == nil {
		err = os.Rename(part.Name(), file)
	}
	if err != nil {
		return 0, fmt.Errorf("write the %s: %w", what, err)
	}
	return info.Size(), nil
}

func newImportCommand(stream streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import [FILE]",
		Short: "Make a state of an export",
		Long: `Make the state of a directory, which has none, of an export: of a file, or of the
input. It is imported whole or not at all. The directory is daemon.state_dir of
the configuration, or --state-dir. As root, the files belong to its owner.

With [ha] in the configuration, what concerns fleets that members share goes into the
cluster's store, and only the rest, with the history, into the directory: do it on one
machine, before any member begins. A store that has a state of these fleets is refused.

An export of the same or an earlier hpad can be imported. Upgrades are one way: an
hpad refuses what a newer one wrote.`,
		Example: "  hpad state import hpad.jsonl\n  zcat hpad.jsonl.gz | hpad state import --state-dir /var/lib/hpad",
		Args:    cobra.MaximumNArgs(1),
	}
	file := cmd.Flags().String("config", defaultConfig, "the configuration `file` that names the directory")
	dir := stateDirFlag(cmd, "the `directory` of the state, not that of the configuration")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		into, configured, err := stateDirOf(*dir, *file)
		if err != nil {
			return err
		}
		from := stream.in
		if len(args) > 0 {
			opened, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer func() { _ = opened.Close() }()
			from = opened
		}
		values, err := state.Import(cmd.Context(), into, from, sharer(cmd.Context(), configured))
		if err != nil {
			return fmt.Errorf("import into %q: %w", into, err)
		}
		text := fmt.Sprintf("%s: %s imported", into, explain.Plural(values, "value"))
		if file, err := os.Stat(filepath.Join(into, "state.db")); err == nil && file.Sys().(*syscall.Stat_t).Uid == 0 {
			text += "; if hpad does not run as root, let its user own it (chown -R) before you start hpad"
		}
		return say(stream.out, text+"\n")
	}
	return cmd
}

// stateDirOf returns the directory that is given, or else that of a configuration, and this
// one; nil where the directory is given.
func stateDirOf(given, file string) (string, *config.Config, error) {
	if given != "" {
		return given, nil, nil
	}
	loaded, err := config.Load(file)
	if err != nil {
		return "", nil, hint.With(err, "--state-dir names the directory without a configuration")
	}
	return loaded.Daemon.StateDir, loaded, nil
}

func newStateCheckCommand(stream streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Look whether the state is sound",
		Long: `Look at every page and value of the state, and name what is damaged and what a start
would do about it. Nothing is changed. A running daemon has looked when it began,
and is told of: stop it first, or check a copy.`,
		Example: "  hpad state check\n  hpad state check --state-dir /var/backups/hpad",
		Args:    cobra.NoArgs,
	}
	format := addOutputFlag(cmd)
	file := cmd.Flags().String("config", defaultConfig, "the configuration `file` that names the directory")
	dir := stateDirFlag(cmd, "the `directory` of the state, not that of the configuration")
	cmd.RunE = func(_ *cobra.Command, _ []string) error {
		of, _, err := stateDirOf(*dir, *file)
		if err != nil {
			return err
		}
		report, err := state.Check(of)
		var held *state.HeldError
		if errors.As(err, &held) {
			return hint.With(err, `the daemon has looked at it when it began; "hpad history --verify" makes its decisions again, and "hpad state export" copies it`)
		}
		if err != nil {
			return err
		}
		if err := write(stream.out, *format, report, func(w io.Writer) error { return show.State(w, report) }); err != nil {
			return err
		}
		if damaged := report.Problems(); damaged > 0 {
			return fmt.Errorf("%s of the state cannot be used", explain.Plural(damaged, "file"))
		}
		return nil
	}
	return cmd
}
