package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/hpad/hpad/daemon/endpoints"
	"github.com/hpad/hpad/daemon/files"
)

// readEndpoints validates the endpoints of a target.
func (t *table) readEndpoints(c *Config, given *endpoints.Config, a *Autoscaler) {
	if given == nil {
		return
	}
	const key = "target.endpoints"
	for _, mistake := range given.Validate() {
		t.add(join(key, mistake.Field), mistake.Value, mistake.Detail)
	}
	a.Endpoints = given
	if filepath.IsAbs(given.File) {
		t.checkEndpointsFile(c, join(key, "file"), given.File)
	}
}

// checkEndpointsFile records an error if another autoscaler writes the same file, possibly under
// another name, or if hpad needs the file itself.
func (t *table) checkEndpointsFile(c *Config, key, file string) {
	path, err := files.Resolve(file)
	if errors.Is(err, fs.ErrPermission) { // for the user of "hpad check", but not for the daemon
		path, err = file, nil
	}
	if err != nil {
		t.addWritten(key, "cannot be written: "+err.Error())
		return
	}
	if dir := c.Daemon.StateDir; files.IsBelow(path, dir) {
		t.addWritten(key, fmt.Sprintf("is in daemon.state_dir (%q), which contains only files of hpad itself: use another directory, such as %q", dir, endpoints.Directory))
		return
	}
	same := func(own string) bool { return own != "" && files.Identity(own) == files.Identity(path) }
	if slices.ContainsFunc(append(slices.Clone(t.loader.files), c.Daemon.Socket, c.Daemon.WebConfig), same) {
		t.addWritten(key, "is a file of hpad itself: use another file")
		return
	}
	other := t.loader.endpoints[files.Identity(path)]
	if other == nil {
		t.loader.endpoints[files.Identity(path)] = t
		return
	}
	detail := fmt.Sprintf("is already the file of autoscaler %q in %s", other.name, other.where(key))
	if path != file {
		detail += fmt.Sprintf("; it is a link to %q", path)
	}
	t.addWritten(key, detail)
}
