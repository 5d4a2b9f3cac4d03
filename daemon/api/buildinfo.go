package api

import (
	"runtime"
	"runtime/debug"
)

// version is set by the linker: -X github.com/hpad/hpad/daemon/api.version=1.2.3.
var version string

// BuildInfo is which hpad this is.
type BuildInfo struct {
	// Version is the release, "(devel)" for a build from a checkout without one.
	Version string `json:"version"`
	// Revision is the commit; empty when the build does not know it.
	Revision string `json:"revision,omitempty"`
	// RevisionTime is when the commit was made, in RFC 3339.
	RevisionTime string `json:"revision_time,omitempty"`
	// Modified reports whether the checkout differed from the commit.
	Modified bool `json:"modified,omitempty"`
	// GoVersion is the toolchain's, as "go1.26.0"; Platform is "linux/amd64".
	GoVersion string `json:"go_version"`
	Platform  string `json:"platform"`
}

// Build returns which hpad the running binary is: the version that the linker
// was given, else the module's own.
func Build() BuildInfo {
	info, _ := debug.ReadBuildInfo()
	return buildInfo(version, info)
}

// buildInfo reads a build's record, which is nil for a binary without one.
func buildInfo(linked string, info *debug.BuildInfo) BuildInfo {
	build := BuildInfo{
		Version:   linked,
		GoVersion: runtime.Version(),
		Platform:  runtime.GOOS + "/" + runtime.GOARCH,
	}
	if info != nil {
		if build.Version == "" {
			build.Version = info.Main.Version
		}
		for _, setting := range info.Settings {
			switch setting.Key {
			case "vcs.revision":
				build.Revision = setting.Value
			case "vcs.time":
				build.RevisionTime = setting.Value
			case "vcs.modified":
				build.Modified = setting.Value == "true"
			}
		}
	}
	if build.Version == "" {
		build.Version = "(devel)"
	}
	return build
}
