//go:build (linux || darwin) && !386 && !arm

package extreme_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// report is a line about a call that a process prints: its begin or its outcome.
type report struct {
	Seed    uint64
	Op      string
	Begins  bool    `json:",omitempty"`
	Outcome outcome `json:",omitempty"`
	Extreme bool    `json:",omitempty"`
	Fault   string  `json:",omitempty"`
	Call    string  `json:",omitempty"`
}

// faultsOfOp bounds the faults of an op: after them its calls are no longer drawn.
const faultsOfOp = 4

// addressSpace bounds what a process that makes calls may map beyond what it has, so that it fails soon where it
// allocates without bound.
const addressSpace = farBytes + 3<<30

// callOf is the call of a seed.
func callOf(seed uint64) *call {
	return draw(opOf(mixed(seed)), bytesOf(seed))
}

// TestExtremeProcess makes calls until the process ends, or the seeds reach a bound, for TestExtremeSoak.
func TestExtremeProcess(t *testing.T) {
	from, err := strconv.ParseUint(os.Getenv("GRAPHRUN_EXTREME_FROM"), 10, 64)
	if err != nil {
		t.Skip("makes calls for TestExtremeSoak")
	}
	step, _ := strconv.ParseUint(os.Getenv("GRAPHRUN_EXTREME_STEP"), 10, 64)
	before, _ := strconv.ParseUint(os.Getenv("GRAPHRUN_EXTREME_BEFORE"), 10, 64)
	boundMemory(t)
	faults := map[string]int{}
	for _, name := range strings.Split(os.Getenv("GRAPHRUN_EXTREME_WITHOUT"), ",") {
		faults[name] = faultsOfOp
	}
	to := json.NewEncoder(os.NewFile(3, "reports"))
	var r rooms
	for seed := from; seed < before; seed += step {
		op := opOf(mixed(seed))
		if faults[op.Name] >= faultsOfOp {
			continue
		}
		if to.Encode(report{Seed: seed, Op: op.Name, Begins: true}) != nil {
			return // the reader has ended
		}
		c := callOf(seed)
		o, err := r.check(t, c)
		done := report{Seed: seed, Op: op.Name, Outcome: o, Extreme: c.extreme}
		if err != nil {
			done.Fault, done.Call = err.Error(), c.String()
			faults[op.Name]++
		}
		if to.Encode(done) != nil {
			return
		}
	}
}

// boundMemory has allocations without bound end the process before the machine has no memory left.
func boundMemory(t *testing.T) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return // not Linux
	}
	var pages uint64
	if _, err := fmt.Sscan(string(text), &pages); err != nil {
		t.Fatal(err)
	}
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_AS, &l); err != nil {
		t.Fatal(err)
	}
	l.Cur = min(l.Max, pages*uint64(os.Getpagesize())+addressSpace)
	if err := unix.Setrlimit(unix.RLIMIT_AS, &l); err != nil {
		t.Fatal(err)
	}
}

// soak collects the reports of processes.
type soak struct {
	sync.Mutex
	calls, extreme int
	outcomes       map[outcome]int
	ops            map[string]int // faults
	kinds          map[string][]report
}

// TestExtremeSoak makes calls in separate processes, so that a call that ends its process is reported like any other
// fault. GRAPHRUN_EXTREME is the number of calls, or a duration such as 20m. The first call has
// GRAPHRUN_EXTREME_SEED, or 1.
func TestExtremeSoak(t *testing.T) {
	from, err := strconv.ParseUint(os.Getenv("GRAPHRUN_EXTREME_SEED"), 10, 64)
	if err != nil {
		from = 1 // a change is judged by the same calls as the one before
	}
	duration, before := os.Getenv("GRAPHRUN_EXTREME"), uint64(math.MaxUint64)>>1
	if count, err := strconv.ParseUint(duration, 10, 32); err == nil {
		duration, before = "24h", from+count
	}
	last, err := time.ParseDuration(duration)
	if err != nil {
		t.Skip("GRAPHRUN_EXTREME is neither a number of calls nor a duration")
	}
	end := time.Now().Add(last)
	s := &soak{outcomes: map[outcome]int{}, ops: map[string]int{}, kinds: map[string][]report{}}
	var all sync.WaitGroup
	workers := uint64(runtime.GOMAXPROCS(0))
	for k := range workers {
		all.Go(func() {
			for next := from + k; next < before && time.Now().Before(end); {
				next = s.process(t, seeds{next, before, workers}, end)
			}
		})
	}
	all.Wait()
	t.Logf("from seed %d: %d calls, %d accepted (%d with extreme attributes), %d of them computed and compared, %d faults",
		from, s.calls, s.calls-s.outcomes[refused], s.extreme, s.outcomes[computed], s.faults())
	for _, kind := range slices.Sorted(maps.Keys(s.kinds)) {
		f := s.kinds[kind][0]
		t.Errorf("%d times, first with seed %d: %s\n%s", len(s.kinds[kind]), f.Seed, f.Call, f.Fault)
	}
	if s.outcomes[computed] == 0 {
		t.Error("no call was computed")
	}
}

func (s *soak) faults() (n int) {
	for _, list := range s.kinds {
		n += len(list)
	}
	return n
}

// seeds are those of a process.
type seeds struct{ from, before, step uint64 }

// process has calls made until the seeds or the time are over, or a call ends the process. It returns the next seed.
func (s *soak) process(t *testing.T, of seeds, end time.Time) uint64 {
	read, write, err := os.Pipe()
	if err != nil {
		t.Error(err)
		return of.before
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestExtremeProcess$", "-test.timeout=0")
	cmd.Env = append(os.Environ(), fmt.Sprint("GRAPHRUN_EXTREME_FROM=", of.from),
		fmt.Sprint("GRAPHRUN_EXTREME_BEFORE=", of.before), fmt.Sprint("GRAPHRUN_EXTREME_STEP=", of.step),
		"GRAPHRUN_EXTREME_WITHOUT="+strings.Join(s.without(), ","), "GOMAXPROCS=2")
	cmd.ExtraFiles = []*os.File{write}
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	err = cmd.Start()
	_ = write.Close()
	if err != nil {
		t.Error(err)
		return of.before
	}
	over := time.AfterFunc(time.Until(end), func() { _ = cmd.Process.Kill() })
	begun, open := report{Seed: of.from}, false
	for lines := bufio.NewReader(read); ; {
		line, err := lines.ReadBytes('\n')
		var told report
		if err != nil || json.Unmarshal(line, &told) != nil {
			break
		}
		if begun, open = told, told.Begins; !open {
			s.add(told)
		}
	}
	_ = read.Close()
	err = cmd.Wait()
	switch inTime := over.Stop(); {
	case inTime && err == nil && !open:
		return of.before // all calls are made
	case inTime:
		begun.Fault, begun.Call = fmt.Sprintf("the process ends: %v\n%s", err, beginning(said.String())), "?"
		if open {
			begun.Call = callOf(begun.Seed).String()
		}
		s.add(begun)
	}
	return begun.Seed + of.step
}

// beginning returns the first lines of a crash report.
func beginning(text string) string {
	lines := strings.SplitAfter(text, "\n")
	return strings.Join(lines[:min(len(lines), 60)], "")
}

// without lists the ops whose faults reached the bound.
func (s *soak) without() (list []string) {
	s.Lock()
	defer s.Unlock()
	for name, n := range s.ops {
		if n >= faultsOfOp {
			list = append(list, name)
		}
	}
	return list
}

var digits = regexp.MustCompile(`0x[0-9a-f]+|-?[0-9]+`)

func (s *soak) add(r report) {
	s.Lock()
	defer s.Unlock()
	s.calls++
	s.outcomes[r.Outcome]++
	if r.Extreme && r.Outcome != refused {
		s.extreme++
	}
	if r.Fault != "" {
		first, _, _ := strings.Cut(r.Fault, "\n")
		kind := r.Op + ": " + digits.ReplaceAllString(first, "N")
		s.kinds[kind] = append(s.kinds[kind], r)
		s.ops[r.Op]++
	}
}
