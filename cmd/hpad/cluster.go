package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/hpad/hpad/cmd/hpad/hint"
	"github.com/hpad/hpad/cmd/hpad/show"
	"github.com/hpad/hpad/daemon/api"
)

func newClusterCommand(stream streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Show the members of a cluster and the owners of fleets",
		Long: `Show the members of a cluster, which [ha] configures, and the owner of each shared fleet.

CLOCK is the offset of the member's clock. TERM is the number of times that a member has
acquired the fleet. LATE is the longest delay of an evaluation in a fleet. NEXT is the next
owner, if it differs from the current owner. CONFIGURATION identifies the configuration that the fleet
runs with: its parts stand for [daemon], the fleet, its sources and its autoscalers. DIFFERS
lists members that cannot take over the fleet, and the parts that differ.`,
		Args: cobra.NoArgs,
	}
	client, format := addConnectFlags(cmd), addOutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		found, err := api.Get[api.Cluster](cmd.Context(), client(), api.Path("cluster"), nil)
		if err != nil {
			return err
		}
		return writeCluster(stream, *format, found)
	}
	cmd.AddCommand(newAdoptCommand(stream))
	return cmd
}

func newAdoptCommand(stream streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "adopt FLEET",
		Short: "Run a fleet with the configuration of this member",
		Long: `Run a fleet with the configuration of the member that receives this command. Members with
another configuration hand the fleet over, and cannot take it over until they have the
same configuration. The command waits up to 5 seconds for the next owner. The history of
each autoscaler has an entry with your name.

If another member runs the fleet with a different configuration, the command changes nothing
without --yes.`,
		Args: cobra.ExactArgs(1),
	}
	yes := cmd.Flags().Bool("yes", false, "adopt the fleet even if another member runs it")
	client, format := addConnectFlags(cmd), addOutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		found, err := api.Get[api.Cluster](cmd.Context(), client(), api.Path("cluster"), nil)
		if err != nil {
			return err
		}
		if err := takesFrom(&found, args[0]); err != nil && !*yes {
			return hint.With(err, fmt.Sprintf("to adopt it, run \"%s %s --yes\"", cmd.CommandPath(), args[0]))
		}
		found, err = api.Post[api.Cluster](cmd.Context(), client(), api.Path("cluster", "adopt"), api.AdoptRequest{Fleet: args[0]})
		if err != nil {
			return err
		}
		return writeCluster(stream, *format, found)
	}
	return cmd
}

// takesFrom returns an error if another member runs a fleet with a configuration that differs from
// the configuration of the queried member.
func takesFrom(c *api.Cluster, fleet string) error {
	for _, f := range c.Fleets {
		if _, differs := f.Differs[c.Member]; f.Name == fleet && differs && f.Owner != "" && f.Owner != c.Member {
			return fmt.Errorf("fleet %q is not adopted: member %s runs it in term %d with a configuration that differs from that of %s, and would have to hand it over",
				fleet, f.Owner, f.Term, show.Difference(&f, c.Member))
		}
	}
	return nil
}

func writeCluster(stream streams, format outputFormat, found api.Cluster) error {
	return write(stream.out, format, found, func(w io.Writer) error { return show.Cluster(w, &found) })
}
