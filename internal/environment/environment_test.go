package environment

import (
	"runtime"
	"runtime/debug"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
)

func TestCaches(t *testing.T) {
	index := "sys/devices/system/cpu/cpu0/cache/index"
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s + "\n")} }
	got := caches(fstest.MapFS{
		index + "0/level": file("1"), index + "0/type": file("Data"), index + "0/size": file("48K"),
		index + "3/level": file("3"), index + "3/type": file("Unified"), index + "3/size": file("32768K"),
		index + "4/level": file("4"),
	})
	assert.Equal(t, []string{"L1 data 48KiB", "L3 unified 32768KiB"}, got)
	assert.Empty(t, caches(fstest.MapFS{}))
}

func TestBuild(t *testing.T) {
	assert.Equal(t, Build(), Build())
	revision := []debug.BuildSetting{{Key: "vcs.revision", Value: "12ab"}, {Key: "vcs.modified", Value: "false"}}
	modified := []debug.BuildSetting{revision[0], {Key: "vcs.modified", Value: "true"}}
	released, local := &debug.Module{Sum: "h1:x"}, &debug.Module{Replace: &debug.Module{Path: "../local"}}
	assert.True(t, determinesCode(&debug.BuildInfo{Settings: revision, Deps: []*debug.Module{released}}))
	assert.True(t, determinesCode(&debug.BuildInfo{Main: *released}))
	assert.False(t, determinesCode(&debug.BuildInfo{Settings: modified}))
	assert.False(t, determinesCode(&debug.BuildInfo{}))
	assert.False(t, determinesCode(&debug.BuildInfo{Settings: revision, Deps: []*debug.Module{released, local}}))
}

func TestCurrent(t *testing.T) {
	e := Current()
	assert.Equal(t, runtime.NumCPU(), e.Cores)
	assert.NotEmpty(t, e.CPU)
	assert.Contains(t, e.Version, runtime.Version())
	assert.Contains(t, e.Code, "machine code")
	assert.False(t, e.Date.IsZero())
}
