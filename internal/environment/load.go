package environment

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"
)

// LoadMeter samples the number of runnable threads of other processes. Its zero value has no samples.
type LoadMeter struct {
	Sum     int       // sum of the samples
	Samples int       // number of samples
	last    time.Time // time of the last sample
}

// sampleInterval is the minimum time between two samples. A sample takes about 0.1 ms.
const sampleInterval = 10 * time.Millisecond

// Sample takes a sample, on Linux. It does nothing if m is nil.
func (m *LoadMeter) Sample() {
	if m == nil || runtime.GOOS != "linux" || time.Since(m.last) < sampleInterval {
		return
	}
	if n, ok := countRunnable(); ok {
		m.Sum += max(0, n-countOwnRunnable())
		m.Samples++
	}
	m.last = time.Now()
}

// Mean returns the mean of the samples; nil without samples or if m is nil.
func (m *LoadMeter) Mean() *float64 {
	if m == nil || m.Samples == 0 {
		return nil
	}
	return new(float64(m.Sum) / float64(m.Samples))
}

// maxLoad is the load above which [LoadWarning] warns.
const maxLoad = 0.5

// LoadWarning returns the warning of a load in words; "" for a load of at most 0.5, or nil.
func LoadWarning(load *float64) string {
	if load == nil || *load <= maxLoad {
		return ""
	}
	return fmt.Sprintf("%.1f threads of other processes were runnable on average", *load)
}

// countRunnable returns the number of runnable threads of the machine. It is the number before the slash in
// /proc/loadavg, such as 1 in "0.20 0.18 0.12 1/80 11206" (proc_loadavg(5)).
func countRunnable() (int, bool) {
	text, err := os.ReadFile("/proc/loadavg")
	fields := bytes.Fields(text)
	if err != nil || len(fields) < 4 {
		return 0, false
	}
	runnable, _, _ := bytes.Cut(fields[3], []byte("/"))
	n, err := strconv.Atoi(string(runnable))
	return n, err == nil
}

// countOwnRunnable returns the number of threads of this process in state R (runnable). The state follows the name in
// parentheses in /proc/self/task/*/stat (proc_pid_stat(5)).
func countOwnRunnable() int {
	n := 0
	paths, _ := filepath.Glob("/proc/self/task/*/stat")
	for _, path := range paths {
		text, _ := os.ReadFile(path)
		if nameEnd := bytes.LastIndexByte(text, ')'); nameEnd >= 0 && bytes.HasPrefix(text[nameEnd+1:], []byte(" R")) {
			n++
		}
	}
	return n
}
