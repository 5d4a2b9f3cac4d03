package api

import (
	"runtime/debug"
	"testing"
)

func TestBuildInfo(t *testing.T) {
	module := &debug.BuildInfo{
		Main: debug.Module{Version: "v1.2.3"},
		Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "abc"},
			{Key: "vcs.time", Value: "2026-11-21T12:00:00Z"},
			{Key: "vcs.modified", Value: "true"},
		},
	}
	for _, test := range []struct {
		name, linked string
		info         *debug.BuildInfo
		wantVersion  string
		wantRevision string
	}{
		{"linked version wins", "1.2.4", module, "1.2.4", "abc"},
		{"module version", "", module, "v1.2.3", "abc"},
		{"nothing known", "", nil, "(devel)", ""},
		{"module without version", "", &debug.BuildInfo{}, "(devel)", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := buildInfo(test.linked, test.info)
			if got.Version != test.wantVersion || got.Revision != test.wantRevision || got.GoVersion == "" || got.Platform == "" {
				t.Errorf("build %+v, want version %q and revision %q", got, test.wantVersion, test.wantRevision)
			}
			if got.Modified != (test.info == module) {
				t.Errorf("modified is %v", got.Modified)
			}
		})
	}
}
