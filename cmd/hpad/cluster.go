package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/hpad/hpad/cmd/hpad/show"
	"github.com/hpad/hpad/daemon/api"
)

func newClusterCommand(stream streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Show the members of a cluster, and who owns which fleet",
		Long: `Show the members of a cluster that [ha] makes of several hpads, and which of them owns
which of the fleets that they share. LATE is for how long the autoscaler of a fleet that
waits longest should have been evaluated. NEXT is who is to
own a fleet where that is not its owner. CONFIGURATION identifies what a fleet is owned
under: OTHERWISE are members that have it configured in another way, with what identifies
theirs, and that do not take it over.`,
		Args: cobra.NoArgs,
	}
	client, format := addConnectFlags(cmd), addOutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		found, err := client().Cluster(cmd.Context())
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
		Short: "Have a fleet owned under this member's configuration",
		Long: `Have a fleet owned under the configuration of the member that is asked. Members that
have another one hand it over, and do not take it over until they have the same.`,
		Args: cobra.ExactArgs(1),
	}
	client, format := addConnectFlags(cmd), addOutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		found, err := client().Adopt(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return writeCluster(stream, *format, found)
	}
	return cmd
}

func writeCluster(stream streams, format outputFormat, found api.Cluster) error {
	return write(stream.out, format, found, func(w io.Writer) error { return show.Cluster(w, &found) })
}
