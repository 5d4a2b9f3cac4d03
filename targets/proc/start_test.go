package proc

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestStartError checks that the error of a program that does not start names the cause.
func TestStartError(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("#!/nonexistent/python -u\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	windows, binary := filepath.Join(dir, "windows"), filepath.Join(dir, "binary")
	for path, text := range map[string]string{windows: "#!/bin/sh\r\n", binary: "\x01\x02"} {
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/nonexistent/current", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ program, dir, want string }{
		{"/bin/true", "/nonexistent", "dir: stat /nonexistent: no such file or directory"},
		{"true", "/nonexistent", "dir: stat /nonexistent: no such file or directory"},
		{"./true", "/nonexistent", "dir: stat /nonexistent: no such file or directory"},
		{"/bin/true", filepath.Join(dir, "link"), "dir: stat " + dir + "/link: no such file or directory"},
		{"/bin/true", script, "dir: " + script + " is not a directory"},
		{"/bin/true", script + "/below", "dir: stat " + script + "/below: not a directory"},
		{script, "", "interpreter of " + script + ": stat /nonexistent/python: no such file or directory"},
		{"./script", dir, "interpreter of " + script + ": stat /nonexistent/python: no such file or directory"},
		{windows, "", "interpreter of " + windows + ": the line ends with CR LF, as on Windows: convert the script, such as with dos2unix"},
		{binary, "", "fork/exec " + binary + ": exec format error: the file is not a program of this system, and a script must begin with a line such as #!/bin/sh"},
		{"/nonexistent/worker", dir, `exec: "/nonexistent/worker": stat /nonexistent/worker: no such file or directory`},
		{"nonexistent-worker", "", `exec: "nonexistent-worker": executable file not found in $PATH`},
	} {
		command := exec.Command(test.program)
		command.Dir, command.SysProcAttr = test.dir, &syscall.SysProcAttr{Setpgid: true}
		err := StartError(command.Run(), test.program, test.dir)
		if err == nil || err.Error() != test.want {
			t.Errorf("%s in %q: %v, want %s", test.program, test.dir, err, test.want)
		}
	}
	if _, err := Run(t.Context(), []string{script}, nil, 100); err == nil || !strings.Contains(err.Error(), "interpreter") {
		t.Errorf("Run() of a script without interpreter = %v", err)
	}
	if err := StartError(nil, "true", "/nonexistent"); err != nil {
		t.Errorf("StartError(nil) = %v", err)
	}
}
