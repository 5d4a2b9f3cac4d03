package compose

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"github.com/hpad/hpad/targets"
)

// Compose copies some secrets and configs into each container before it starts the container;
// their content comes from its environment or from the Compose file. The engine does not list
// these files, so hpad copies them from an existing container.

const (
	// secretsDir is the default directory of secrets.
	secretsDir = "/run/secrets"
	// filesSize limits the total size of the files copied into a container, in bytes.
	filesSize = 1 << 20
)

type file struct {
	Path string `json:"path"`
	Mode int64  `json:"mode"`
	UID  int    `json:"uid"`
	GID  int    `json:"gid"`
	Data []byte `json:"data"`
}

// filesOf reads the files that were copied into a container: those below /run/secrets that are
// not mounts, and those in copy_paths.
func (f *Fleet) filesOf(ctx context.Context, k key, inspected *container.InspectResponse) ([]file, error) {
	mounted := map[string]bool{}
	for _, m := range inspected.Mounts {
		mounted[path.Clean(m.Destination)] = true
	}
	for target := range inspected.HostConfig.Tmpfs {
		mounted[path.Clean(target)] = true
	}
	left := int64(filesSize)
	var files []file
	add := func(from string) error {
		found, err := f.archive(ctx, inspected.ID, from, left)
		if err != nil {
			return fmt.Errorf("read %s of container %s: %w", from, strings.TrimPrefix(inspected.Name, "/"), err)
		}
		for _, one := range found {
			if below(one.Path, mounted) {
				continue
			}
			left -= int64(len(one.Data))
			files = append(files, one)
		}
		return nil
	}
	if !mounted[secretsDir] && !below(secretsDir, mounted) {
		if err := add(secretsDir); err != nil && !isNotFound(err) {
			return nil, err
		}
	}
	for _, named := range f.config.Services[k.String()].CopyPaths {
		if strings.HasPrefix(named, secretsDir+"/") {
			continue
		}
		if err := add(named); err != nil {
			return nil, fmt.Errorf("copy_paths: %w", err)
		}
	}
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.Path, b.Path) })
	return files, nil
}

// below reports whether a path is at or below a mount.
func below(p string, mounted map[string]bool) bool {
	for ; p != "/" && p != "."; p = path.Dir(p) {
		if mounted[p] {
			return true
		}
	}
	return false
}

// archive reads the regular files at or below a path of a container, up to a total of most
// bytes.
func (f *Fleet) archive(ctx context.Context, id, from string, most int64) ([]file, error) {
	var files []file
	err := f.engine.Read(ctx, func(ctx context.Context, c *client.Client) error {
		body, _, err := c.CopyFromContainer(ctx, id, from)
		if err != nil {
			return err
		}
		defer func() { _ = body.Close() }()
		files, err = untar(body, path.Dir(from), most)
		return err
	})
	return files, err
}

// untar reads the regular files of an archive. The names in the archive are relative to dir.
func untar(r io.Reader, dir string, most int64) ([]file, error) {
	var files []file
	archive := tar.NewReader(r)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w: read the archive: %w", targets.ErrTransient, err)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		one := file{Path: path.Join(dir, path.Clean("/"+header.Name)), Mode: header.Mode, UID: header.Uid, GID: header.Gid}
		if one.Data, err = io.ReadAll(io.LimitReader(archive, most+1)); err != nil {
			return nil, fmt.Errorf("%w: read %s of the archive: %w", targets.ErrTransient, one.Path, err)
		}
		if most -= int64(len(one.Data)); most < 0 {
			return nil, fmt.Errorf("%w: there are more than %d bytes of copied files", targets.ErrUnscalable, filesSize)
		}
		files = append(files, one)
	}
}

// archived returns a tar archive that must be extracted at the root.
func archived(files []file) (*bytes.Buffer, error) {
	var buffer bytes.Buffer
	archive := tar.NewWriter(&buffer)
	for _, one := range files {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: strings.TrimPrefix(one.Path, "/"), Size: int64(len(one.Data)),
			Mode: one.Mode, Uid: one.UID, Gid: one.GID,
		}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(one.Data); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	return &buffer, nil
}
