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

// defaultSocket is where the daemon listens by default.
const defaultSocket = "/run/hpad/hpad.sock"

// The environment variables that say where the daemon is when flags do not.
const (
	socketVariable       = "HPAD_SOCKET"
	serverVariable       = "HPAD_SERVER"
	caFileVariable       = "HPAD_CA_FILE"
	certFileVariable     = "HPAD_CERT_FILE"
	keyFileVariable      = "HPAD_KEY_FILE"
	usernameVariable     = "HPAD_USERNAME"
	passwordFileVariable = "HPAD_PASSWORD_FILE"
)

// addConnectFlags gives a command the flags that say where the daemon is, and
// returns how to get a client of it once flags are parsed. A flag goes before the
// environment, and a server of the environment before a socket of it.
func addConnectFlags(cmd *cobra.Command) func() *api.Client {
	socket, server := defaultSocket, api.Server{}
	flags := cmd.Flags()
	add := func(to *string, flag, variable, usage string) {
		if named := os.Getenv(variable); named != "" {
			*to = named
		}
		flags.StringVar(to, flag, *to, usage+"; "+variable+" names it too")
	}
	add(&socket, "socket", socketVariable, "the daemon's unix socket")
	add(&server.URL, "server", serverVariable, "the `URL` of the daemon, to ask it over TCP instead")
	add(&server.CAFile, "ca-file", caFileVariable, "the `file` of the authorities that vouch for the server")
	add(&server.CertFile, "cert-file", certFileVariable, "the `file` of the certificate to show to the server")
	add(&server.KeyFile, "key-file", keyFileVariable, "the `file` of its key")
	add(&server.Username, "username", usernameVariable, "the `name` to give to the server")
	add(&server.PasswordFile, "password-file", passwordFileVariable, "the `file` of its password")
	warn := func() {}
	var lacking func(string)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		// Once, and not where a shell asks for names to complete.
		warn = sync.OnceFunc(func() { warnOfPassword(cmd.ErrOrStderr(), server) })
		told := map[string]bool{}
		lacking = func(text string) {
			if !told[text] { // once, also by what asks again and again
				told[text] = true
				notice(cmd.ErrOrStderr(), "warning", "%s", text)
			}
		}
		if flags.Changed("socket") && flags.Changed("server") {
			return wrongUse(errors.New("--socket and --server both say where the daemon is"), helpHint(cmd))
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
			client = client.Cleaning(show.Clean)
		}
		return client.Warning(lacking)
	}
}

// daemonHere returns a client of the daemon on this machine, for a command without the
// flags that say where it is.
func daemonHere() *api.Client {
	return api.NewClient(cmp.Or(os.Getenv(socketVariable), defaultSocket))
}

// warnOfPassword warns that a password is about to be sent for everybody to read.
func warnOfPassword(to io.Writer, server api.Server) {
	if host := server.ExposedTo(); host != "" {
		notice(to, "warning", "the password goes to %q without TLS, and anybody on the way can read it: https:// needs TLS in the server's web config", host)
	}
}

// completeNames completes the names of autoscalers, at most limit of them; 0 is
// no limit.
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

// suggestName adds to the error of a name that does not exist a near one, or that of the
// autoscaler whose target it is.
func suggestName(ctx context.Context, client *api.Client, name string, err error) error {
	if !errors.Is(err, api.ErrNotFound) {
		return err
	}
	var names []string
	scaler := ""
	for view, listErr := range client.EachBriefly(ctx) {
		if listErr != nil {
			// The name is wrong all the same; only the hint is lost.
			return err
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
	if near := config.Nearest(name, names); near != "" {
		return hint.With(err, "did you mean \""+near+"\"?")
	}
	return hint.With(err, "\"hpad get\" lists the autoscalers")
}

// suggestFleet adds to the error of a fleet that there is not the name that was probably
// meant, of the fleets that autoscalers have.
func suggestFleet(ctx context.Context, client *api.Client, name string, err error) error {
	if !errors.Is(err, api.ErrNotFound) {
		return err
	}
	names, listErr := fleetsOf(ctx, client)
	if listErr != nil {
		// The name is wrong all the same; only the hint is lost.
		return err
	}
	if near := config.Nearest(name, names); near != "" {
		return hint.With(err, "did you mean \""+near+"\"?")
	}
	return hint.With(err, "\"hpad get\" lists the autoscalers, with fleets before the slash of their targets")
}

// fleetsOf returns the fleets that autoscalers have.
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

// labelsText says of a target with labels why no autoscaler has its name; empty
// when there is nothing to say.
func labelsText(ctx context.Context, client *api.Client, reference string) string {
	discovered, err := client.Discovered(ctx)
	if err != nil {
		return "" // the name is wrong all the same
	}
	i := slices.IndexFunc(discovered, func(target api.Discovered) bool { return target.Reference == reference })
	if i < 0 {
		return ""
	}
	switch target := discovered[i]; target.State {
	case api.DiscoveredOverridden:
		return fmt.Sprintf("the labels of this target are ignored: autoscaler %q scales it", target.Autoscaler)
	case api.DiscoveredMistaken:
		return "the labels of this target are invalid: " + explain.OneLine(target.Problem)
	case api.DiscoveredDisabled:
		return `the labels of this target ask for no autoscaler: hpad.enable is not "true"`
	}
	return ""
}
