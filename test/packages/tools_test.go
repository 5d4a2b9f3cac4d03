package packages

import (
	"os"
	"os/exec"
	"testing"

	"github.com/hpad/hpad/test/internal/installed"
)

// enter runs a script as root in a mount namespace that contains the system in test/install's
// cache. Changes are discarded. /mnt is the directory to check.
const enter = `
mount -t tmpfs tmpfs /media
mkdir /media/written /media/work /media/root
mount -t overlay -o "lowerdir=$1,upperdir=/media/written,workdir=/media/work" overlay /media/root
mount --bind "$2" /media/root/mnt
mount -t tmpfs tmpfs /media/root/tmp
mount -t proc proc /media/root/proc
exec chroot /media/root /bin/sh -euc "cd /mnt; $3"
`

// runTools runs a script with the package checkers and returns its output. If they are missing or
// the test does not run as root, the test is skipped, or fails if CI=true.
func runTools(t testing.TB, directory, script string) string {
	t.Helper()
	root := installed.Path(t, "package-tools-*", "test/install/package-tools.sh")
	if os.Geteuid() != 0 {
		installed.Absent(t, "changing the root directory needs root")
	}
	command := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-euc", enter, "enter", root, directory, script)
	command.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "HOME=/tmp"}
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, output)
	}
	return string(output)
}
