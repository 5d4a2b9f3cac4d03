package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/hpad/hpad/cmd/hpad/hint"
	"github.com/hpad/hpad/cmd/hpad/show"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/explain"
)

// defaultSocket is the path of the daemon's default socket.
const defaultSocket = "/run/hpad/hpad.sock"

// The environment variables that correspond to the connection flags.
const (
	socketVariable       = "HPAD_SOCKET"
	serverVariable       = "HPAD_SERVER"
	caFileVariable       = "HPAD_CA_FILE"
	certFileVariable     = "HPAD_CERT_FILE"
	keyFileVariable      = "HPAD_KEY_FILE"
	usernameVariable     = "HPAD_USERNAME"
	passwordFileVariable = "HPAD_PASSWORD_FILE"
)

// addConnectFlags adds the flags for the connection to the daemon. It returns a function that
// returns a client once the flags are parsed. Flags take precedence over environment variables, and
// the variable for the server takes precedence over the variable for the socket.
func addConnectFlags(cmd *cobra.Command) func() *api.Client {
	socket, server := defaultSocket, api.Server{}
	flags := cmd.Flags()
	add := func(to *string, flag, variable, usage string) {
		if named := os.Getenv(variable); named != "" {
			*to = named
		}
		flags.StringVar(to, flag, *to, usage+"; env "+variable)
	}
	add(&socket, "socket", socketVariable, "unix `socket` of the daemon")
	add(&server.URL, "server", serverVariable, "`URL` of the daemon, for a connection over TCP")
	add(&server.CAFile, "ca-file", caFileVariable, "`file` with the CA certificates to verify the server")
	add(&server.CertFile, "cert-file", certFileVariable, "`file` with the client certificate")
	add(&server.KeyFile, "key-file", keyFileVariable, "`file` with the key of the client certificate")
	add(&server.Username, "username", usernameVariable, "user `name` for the server")
	add(&server.PasswordFile, "password-file", passwordFileVariable, "`file` with the password of the user")
	warn := func() {}
	var lacking func(string)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		// Warn only once, and not during shell completion.
		warn = sync.OnceFunc(func() { warnOfPassword(cmd.ErrOrStderr(), server) })
		reported := map[string]bool{}
		lacking = func(text string) {
			if !reported[text] { // only once, even if requests are repeated
				reported[text] = true
				notice(cmd.ErrOrStderr(), "warning", "%s", text)
			}
		}
		if flags.Changed("socket") && flags.Changed("server") {
			return wrongUse(errors.New("--socket and --server are mutually exclusive"), helpHint(cmd))
		}
		return nil
	}
	return func() *api.Client {
		client := api.NewClient(socket)
		if server.URL != "" && !flags.Changed("socket") {
			warn()
			client = api.NewServerClient(server)
		}
		if output := flags.Lookup("output"); output == nil || !slices.Contains(encodings, outputFormat(output.Value.String())) {
			client = client.WithCleaning(show.Clean)
		}
		return client.Warning(lacking)
	}
}

// daemonHere returns a client for the daemon on this host. Commands without connection flags use
// it.
func daemonHere() *api.Client {
	return api.NewClient(cmp.Or(os.Getenv(socketVariable), defaultSocket))
}

// warnOfPassword warns about a password that is sent without TLS.
func warnOfPassword(to io.Writer, server api.Server) {
	if host := server.ExposedTo(); host != "" {
		notice(to, "warning", "the password is sent to %q without TLS: configure TLS in the server's web config and use https://", host)
	}
}

// completeNames completes the names of up to limit autoscalers. A limit of 0 means no limit.
func completeNames(client func() *api.Client, limit int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if limit > 0 && len(args) >= limit {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []cobra.Completion
		for view, err := range client().EachBriefly(cmd.Context()) {
			if err != nil {
				return nil, cobra.ShellCompDirectiveError
			}
			names = append(names, view.Name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// suggestName adds a hint to the error about an unknown name: a similar name, or the autoscaler
// that scales the target with this reference.
func suggestName(ctx context.Context, client *api.Client, name string, err error) error {
	if !errors.Is(err, api.ErrNotFound) {
		return err
	}
	var names []string
	scaler := ""
	for view, listErr := range client.EachBriefly(ctx) {
		if listErr != nil {
			return err // no hint is possible
		}
		if view.Reference == name {
			scaler = view.Name
		}
		names = append(names, view.Name)
	}
	if text := labelsText(ctx, client, name); text != "" {
		return hint.With(err, text)
	}
	if scaler != "" {
		return hint.With(err, fmt.Sprintf("%s is the target of autoscaler %q", name, scaler))
	}
	if kind, rest, _ := strings.Cut(name, "/"); isKind(kind) {
		return hint.With(err, withoutKind(kind, rest))
	}
	if near := config.Nearest(name, names); near != "" {
		return hint.With(err, "did you mean \""+near+"\"?")
	}
	return hint.With(err, "\"hpad get\" lists the autoscalers")
}

// suggestFleet adds a similar name to the error about an unknown fleet.
func suggestFleet(ctx context.Context, client *api.Client, name string, err error) error {
	if !errors.Is(err, api.ErrNotFound) {
		return err
	}
	names, listErr := fleetsOf(ctx, client)
	if listErr != nil {
		return err // no hint is possible
	}
	if near := config.Nearest(name, names); near != "" {
		return hint.With(err, "did you mean \""+near+"\"?")
	}
	return hint.With(err, "\"hpad get\" lists the autoscalers; their references start with the fleet")
}

// fleetsOf returns the fleets of all autoscalers.
func fleetsOf(ctx context.Context, client *api.Client) ([]string, error) {
	var names []string
	for view, err := range client.EachBriefly(ctx) {
		if err != nil {
			return nil, err
		}
		if fleet, _, _ := strings.Cut(view.Reference, "/"); !slices.Contains(names, fleet) {
			names = append(names, fleet)
		}
	}
	return names, nil
}

// labelsText explains why the labels of a target define no autoscaler. It returns "" if the target
// has no labels.
func labelsText(ctx context.Context, client *api.Client, reference string) string {
	discovered, err := api.Get[[]api.Discovered](ctx, client, api.Path("discovery"), nil)
	if err != nil {
		return ""
	}
	i := slices.IndexFunc(discovered, func(target api.Discovered) bool { return target.Reference == reference })
	if i < 0 {
		return ""
	}
	switch target := discovered[i]; target.State {
	case api.DiscoveredOverridden:
		return fmt.Sprintf("the labels of this target are ignored: autoscaler %q scales it", target.Autoscaler)
	case api.DiscoveredInvalid:
		return "the labels of this target are invalid: " + explain.OneLine(target.Problem)
	case api.DiscoveredDisabled:
		return `the labels of this target do not enable an autoscaler: hpad.enable is not "true"`
	}
	return ""
}
