package environment

import (
	"runtime"
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

func TestCurrent(t *testing.T) {
	e := Current()
	assert.Equal(t, runtime.NumCPU(), e.Cores)
	assert.NotEmpty(t, e.CPU)
	assert.Contains(t, e.Version, runtime.Version())
	assert.Contains(t, e.Code, "machine code")
	assert.False(t, e.Date.IsZero())
}
