package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/bcrypt"
	"golang.org/x/term"
)

func newHashPasswordCommand(stream streams) *cobra.Command {
	return &cobra.Command{
		Use:   "hash-password",
		Short: "Hash a password for the web config",
		Long: `Print the bcrypt hash of a password, for basic_auth_users in the file of daemon.web_config.
The command prompts for the password on a terminal. Otherwise, it reads the first line of
standard input.`,
		Example: "  hpad hash-password\n  pwgen 20 1 | tee password | hpad hash-password",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			password, err := readPassword(stream)
			if err != nil {
				return err
			}
			hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.DefaultCost)
			if err != nil {
				return fmt.Errorf("hash the password: %w", err)
			}
			_, err = fmt.Fprintf(stream.out, "%s\n", hash)
			return err
		},
	}
}

// readPassword reads a password twice from a terminal, without an echo, or once from another input.
func readPassword(stream streams) (string, error) {
	file, ok := stream.in.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		line, err := bufio.NewReader(stream.in).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return "", fmt.Errorf("read the password: %w", err)
		}
		if line = strings.TrimRight(line, "\r\n"); line == "" {
			return "", errors.New("the password is empty")
		}
		return line, nil
	}
	var read [2]string
	for i, prompt := range []string{"Password: ", "Repeat the password: "} {
		_, _ = fmt.Fprint(stream.err, prompt)
		text, err := term.ReadPassword(int(file.Fd()))
		_, _ = fmt.Fprintln(stream.err)
		if err != nil {
			return "", fmt.Errorf("read the password: %w", err)
		}
		read[i] = string(text)
	}
	switch {
	case read[0] == "":
		return "", errors.New("the password is empty")
	case read[0] != read[1]:
		return "", errors.New("the passwords differ")
	}
	return read[0], nil
}
