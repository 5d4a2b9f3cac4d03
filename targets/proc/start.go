package proc

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// CheckDir returns an error if a program cannot be started in a working directory. The empty
// directory is valid.
func CheckDir(dir string) error {
	if dir == "" {
		return nil
	}
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return fmt.Errorf("dir: %w", err)
	case !info.IsDir():
		return fmt.Errorf("dir: %s is not a directory", dir)
	}
	if err := unix.Access(dir, unix.X_OK); err != nil {
		return fmt.Errorf("dir: enter %s: %w", dir, err)
	}
	return nil
}

// CheckProgram returns an error if a program, or the interpreter of a script, does not exist. A
// relative path with a slash is relative to dir.
func CheckProgram(program, dir string) error {
	if dir != "" && filepath.Base(program) != program && !filepath.IsAbs(program) {
		program = filepath.Join(dir, program)
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return err
	}
	interpreter := interpreterOf(path)
	if strings.HasSuffix(interpreter, "\r") {
		return fmt.Errorf("interpreter of %s: the line ends with CR LF, as on Windows: convert the script, such as with dos2unix", path)
	}
	if interpreter != "" {
		if _, err := os.Stat(interpreter); err != nil {
			return fmt.Errorf("interpreter of %s: %w", path, err)
		}
	}
	return nil
}

// maxInterpreter is the maximum length of the first line of a script, as in execve(2).
const maxInterpreter = 256

// interpreterOf returns the interpreter of a script as the kernel reads it, or "".
func interpreterOf(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	line, _ := bufio.NewReader(io.LimitReader(file, maxInterpreter)).ReadString('\n')
	line, script := strings.CutPrefix(line, "#!")
	// Unlike the kernel, strings.Fields also separates at "\r".
	fields := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t\n", r) })
	if script && len(fields) > 0 {
		return fields[0]
	}
	return ""
}

// StartError replaces the error of a program that did not start with the cause. The kernel reports
// a missing working directory and a missing interpreter in the same way as a missing program.
func StartError(err error, program, dir string) error {
	if errors.Is(err, unix.ENOEXEC) {
		return fmt.Errorf("%w: the file is not a program of this system, and a script must begin with a line such as #!/bin/sh", err)
	}
	if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission) && !errors.Is(err, unix.ENOTDIR) {
		return err
	}
	if cause := CheckDir(dir); cause != nil {
		return cause
	}
	if cause := CheckProgram(program, dir); cause != nil {
		return cause
	}
	return err
}
