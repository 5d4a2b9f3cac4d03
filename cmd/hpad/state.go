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
	"github.com/hpad/hpad/daemon/cluster"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/daemon/files"
	"github.com/hpad/hpad/daemon/state"
)

func newStateCommand(stream streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "state",
		Short: "Export and import the state of hpad",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newExportCommand(stream), newImportCommand(stream))
	return cmd
}

func stateDirFlag(cmd *cobra.Command, usage string) *string {
	return cmd.Flags().String("state-dir", "", usage)
}

func newExportCommand(stream streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Export the state as JSON Lines",
		Long: `Export the state as JSON Lines for "hpad state import": windows, rates, pauses, counts and
other inputs of decisions, and the history. The daemon continues to run. Without a daemon,
set --state-dir.

In a cluster, each member exports the shared state and its own history. Without a daemon,
set --config to a configuration with [ha] to read the cluster's store.

An export is not redacted: it includes secrets that a fleet stores for its containers.`,
		Example: "  hpad state export --file hpad.jsonl\n  hpad state export --no-history | gzip > hpad.jsonl.gz",
		Args:    cobra.NoArgs,
	}
	client := addConnectFlags(cmd)
	dir := stateDirFlag(cmd, "read the state in this `directory`; no running daemon may use it")
	configured := cmd.Flags().String("config", "", "read the state of this configuration `file`, which no running daemon may use; with [ha] read the store of the cluster")
	file := cmd.Flags().String("file", "", "output `file` with mode 0600 (default: standard output)")
	without := cmd.Flags().Bool("no-history", false, "omit the history")
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
		size, err := writeWhole(*file, export)
		if err != nil {
			return err
		}
		return say(stream.out, fmt.Sprintf("%s: %s\n", *file, units.HumanSize(float64(size))))
	}
	return cmd
}

// exportConfigured exports the state to which a configuration refers.
func exportConfigured(ctx context.Context, file string, to io.Writer, history bool) error {
	c, err := config.Load(ctx, file)
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
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
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

// storeTimeout limits the access to the cluster's store.
const storeTimeout = 5 * time.Minute

// importState imports an export into a directory. If the configuration contains [ha], the state of
// the shared fleets goes into the cluster store instead. The configuration may be nil.
func importState(ctx context.Context, dir string, c *config.Config, from io.Reader) (values int, err error) {
	if c == nil || c.HA == nil {
		return state.Import(ctx, dir, from, nil)
	}
	coordinator, err := newCoordinator(c.HA)
	if err != nil {
		return 0, err
	}
	defer func() { _ = coordinator.Close() }()
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	var shared *cluster.Import
	values, err = state.Import(ctx, dir, from, func(values map[string][]byte, keep func(own map[string][]byte) error) (err error) {
		// Begin after the directory is marked, so that a killed import can always be repeated.
		if shared, err = cluster.BeginImport(ctx, coordinator, c); err != nil {
			return err
		}
		return shared.Write(ctx, values, keep)
	})
	if shared == nil {
		return values, err
	}
	return values, shared.End(ctx, err)
}

// writeWhole writes an export to a file, completely or not at all, and returns the file's size in
// bytes. The file is new even if one exists, so that only its owner can read the secrets in it.
func writeWhole(file string, write func(io.Writer) error) (size int64, err error) {
	file, err = files.Resolve(file)
	if err != nil {
		return 0, fmt.Errorf("write the export: %w", err)
	}
	part, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*")
	if err != nil {
		return 0, fmt.Errorf("write the export: %w", err)
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
		return 0, fmt.Errorf("write the export: %w", err)
	}
	return info.Size(), nil
}

func newImportCommand(stream streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import [FILE]",
		Short: "Import an export into an empty state directory",
		Long: `Import an export from a file or standard input into a directory without a state,
completely or not at all. The directory is daemon.state_dir of the configuration, or
--state-dir. If run as root, the files get the owner of the directory.

With [ha] in the configuration, the command imports the state of shared fleets into the
store of the cluster, and the other state and the history into the directory. Run it on
one host, before any member starts. It fails if the store already contains a state of
these fleets. Until it is complete, no member owns a fleet. You can repeat a failed or
killed import.

The export must come from the same or an earlier version of hpad.`,
		Example: "  hpad state import hpad.jsonl\n  zcat hpad.jsonl.gz | hpad state import --state-dir /var/lib/hpad",
		Args:    cobra.MaximumNArgs(1),
	}
	file := cmd.Flags().String("config", defaultConfig, "configuration `file` that sets the directory")
	dir := stateDirFlag(cmd, "state `directory`, instead of the one in the configuration")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		into, configured, err := stateDirOf(cmd.Context(), *dir, *file)
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
		values, err := importState(cmd.Context(), into, configured, from)
		if err != nil {
			return fmt.Errorf("import into %q: %w", into, err)
		}
		text := fmt.Sprintf("%s: %s imported", into, explain.Plural(values, "value"))
		if file, err := os.Stat(filepath.Join(into, "state.db")); err == nil && file.Sys().(*syscall.Stat_t).Uid == 0 {
			text += "; if hpad does not run as root, change the owner to its user (chown -R) before you start hpad"
		}
		return say(stream.out, text+"\n")
	}
	return cmd
}

// stateDirOf returns the given directory. If it is empty, stateDirOf loads a configuration and
// returns it with its state directory.
func stateDirOf(ctx context.Context, given, file string) (string, *config.Config, error) {
	if given != "" {
		return given, nil, nil
	}
	loaded, err := config.Load(ctx, file)
	if err != nil {
		return "", nil, hint.With(err, "without a configuration, set --state-dir")
	}
	return loaded.Daemon.StateDir, loaded, nil
}
