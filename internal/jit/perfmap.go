package jit

import (
	"fmt"
	"os"
	"sync"
)

// perfMap returns the file from which the profiler perf reads names of functions. It is nil unless GRAPHRUN_PERFMAP
// is set and the file can be created.
var perfMap = sync.OnceValue(func() *os.File {
	if os.Getenv("GRAPHRUN_PERFMAP") == "" {
		return nil
	}
	name := fmt.Sprintf("/tmp/perf-%d.map", os.Getpid()) // the path that perf reads
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, "GRAPHRUN_PERFMAP:", err)
		return nil
	}
	return f
})

// reportToPerf adds the address, size and name of a function to perf's file, if there is one.
func reportToPerf(address uintptr, size int, name string) {
	if file := perfMap(); file != nil {
		fmt.Fprintf(file, "%x %x graphrun:%s\n", address, size, name)
	}
}
