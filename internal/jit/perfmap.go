package jit

import (
	"fmt"
	"os"
	"sync"
)

// perfMap is the file by which perf finds names for addresses, or nil. It is written where GRAPHRUN_PERFMAP is set.
var perfMap = sync.OnceValue(func() *os.File {
	if os.Getenv("GRAPHRUN_PERFMAP") == "" {
		return nil
	}
	name := fmt.Sprintf("/tmp/perf-%d.map", os.Getpid()) // where perf looks
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, "GRAPHRUN_PERFMAP:", err)
		return nil
	}
	return f
})

// tellProfiler writes a function down for perf, if that is asked for.
func tellProfiler(at uintptr, size int, name string) {
	if f := perfMap(); f != nil {
		fmt.Fprintf(f, "%x %x graphrun:%s\n", at, size, name)
	}
}
