package batch

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/tensor"
)

// faulty is a file system on which an operation fails.
type faulty struct {
	disk
	fails func(operation, path string) error // called by one goroutine at a time

	mu sync.Mutex
}

func (f *faulty) check(operation, path string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fails(operation, path)
}

func (f *faulty) create(path string) (outputFile, error) {
	if err := f.check("create", path); err != nil {
		return nil, err
	}
	out, err := f.disk.create(path)
	return &faultyFile{out, path, f}, err
}

func (f *faulty) openAppend(path string) (outputFile, error) {
	if err := f.check("openAppend", path); err != nil {
		return nil, err
	}
	out, err := f.disk.openAppend(path)
	return &faultyFile{out, path, f}, err
}

func (f *faulty) rename(from, to string) error {
	if err := f.check("rename", to); err != nil {
		return err
	}
	return f.disk.rename(from, to)
}

func (f *faulty) makeDirectory(path string) error {
	if err := f.check("makeDirectory", path); err != nil {
		return err
	}
	return f.disk.makeDirectory(path)
}

func (f *faulty) syncDirectory(path string) error {
	if err := f.check("syncDirectory", path); err != nil {
		return err
	}
	return f.disk.syncDirectory(path)
}

type faultyFile struct {
	outputFile
	path string
	fsys *faulty
}

// Write writes a part of b if the operation fails.
func (f *faultyFile) Write(b []byte) (int, error) {
	if err := f.fsys.check("write", f.path); err != nil {
		n, _ := f.outputFile.Write(b[:len(b)/2])
		return n, err
	}
	return f.outputFile.Write(b)
}

func (f *faultyFile) Sync() error {
	if err := f.fsys.check("sync", f.path); err != nil {
		return err
	}
	return f.outputFile.Sync()
}

// TestInterruptedResults: the end of the context ends the writing of a large result, which needs no memory for its
// elements.
func TestInterruptedResults(t *testing.T) {
	f := newFolder(t, `{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [1]}], "nodes": [{"name": "y",
		"op": "expand", "inputs": ["x"], "attrs": {"size": [1000, 10000000]}}], "outputs": ["y"]}`)
	f.write("in/a.npz", "")
	require.NoError(t, npz.WriteFile(f.path("in/a.npz"), []npz.Entry{{Name: "x", Tensor: tensor.Zeros(tensor.Float32, 1)}}))
	ctx, cancel := context.WithCancel(t.Context())
	writes := 0
	fsys := &faulty{fails: func(operation, path string) error {
		if operation == "write" && filepath.Ext(path) != ".jsonl" {
			if writes++; writes == 3 {
				cancel()
			}
		}
		return nil
	}}
	s, err := run(ctx, f.model(), f.find("in/*"), f.path("out"), Options{}, fsys)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, [4]int{0, 0, 0, 1}, counts(s))
	require.LessOrEqual(t, writes, 4)
	left, err := filesIn(f.path("out/.graphrun/writing-1-of-1"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestFaults makes each operation on the file system fail once, and lets the following ones fail, too, as on a full
// disk. The run ends with the error; outputs are whole; the next run finishes and repeats at most one part.
func TestFaults(t *testing.T) {
	const inputs, part = 12, 3
	for _, operation := range []string{"create", "openAppend", "write", "sync", "rename", "makeDirectory",
		"syncDirectory"} {
		failures := 0
		for nth := 0; ; nth += testsize.Of(9, 1) {
			f := newFolder(t, affine)
			f.writeRows(inputs)
			f.write("in/bad.npz", "")
			calls := 0
			fsys := &faulty{fails: func(o, _ string) error {
				if o != operation {
					return nil
				}
				if calls++; calls > nth {
					return syscall.ENOSPC
				}
				return nil
			}}
			o := Options{PartSize: part}
			s, err := run(t.Context(), f.model(), f.find("in/*"), f.path("out"), o, fsys)
			if err == nil {
				break
			}
			failures++
			require.ErrorIs(t, err, syscall.ENOSPC, "%s %d", operation, nth)
			require.Equal(t, inputs+1, s.Done+s.Failed+s.Missing)
			f.checkRows(inputs, false)
			left, err := filesIn(f.path("out/.graphrun/writing-1-of-1"))
			require.True(t, err == nil || errors.Is(err, os.ErrNotExist))
			require.Empty(t, left)
			again := f.run("in/*", o)
			require.GreaterOrEqual(t, again.Skipped+again.Failed, s.Done+s.Failed)
			require.LessOrEqual(t, again.Done, s.Missing)
			f.checkRows(inputs, true)
			require.Equal(t, [4]int{0, inputs, 1, 0}, counts(f.run("in/*", o)))
		}
		require.Positive(t, failures, operation)
	}
}

// Environment variables of a process that runs all inputs of a folder: its directory, and the number of operations on
// the file system before the process kills itself.
const childDirectory, childOperations = "GRAPHRUN_BATCH_TEST", "GRAPHRUN_BATCH_TEST_OPERATIONS"

const childPart = 5

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDirectory); dir != "" {
		if err := runChild(dir, os.Getenv(childOperations)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func runChild(dir, operations string) error {
	left, err := strconv.Atoi(operations)
	if err != nil {
		return err
	}
	inputs, err := Find(filepath.Join(dir, "in", "*"))
	if err != nil {
		return err
	}
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	fsys := &faulty{fails: func(string, string) error {
		if left--; left < 0 {
			if err := self.Kill(); err != nil {
				return err
			}
			select {}
		}
		return nil
	}}
	_, err = run(context.Background(), filepath.Join(dir, "m.json"), inputs, filepath.Join(dir, "out"),
		Options{PartSize: childPart}, fsys)
	return err
}

// written returns the files in the output directory, with the times at which they were written.
func written(t *testing.T, d outputDir, inputs []Input) map[string]time.Time {
	t.Helper()
	paths, err := filesIn(d.shardPath("writing", &Options{Shards: 1}))
	require.True(t, err == nil || errors.Is(err, os.ErrNotExist))
	for _, in := range inputs {
		paths = append(paths, d.outputPath(in.Name))
	}
	times := map[string]time.Time{}
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil {
			times[path] = info.ModTime()
		}
	}
	return times
}

// TestKilled kills processes before random operations on the file system. Outputs are whole, those with records are
// never written again, and a process leaves at most one part without records.
func TestKilled(t *testing.T) {
	count, kills := testsize.Of(60, 2000), testsize.Of(4, 40)
	f := newFolder(t, affine)
	f.writeRows(count)
	inputs, names := f.find("in/*"), map[string]bool{}
	for _, in := range inputs {
		names[in.Name] = true
	}
	d := outputDir{f.path("out")}
	before := map[string]time.Time{}
	finished := map[string]bool{} // paths of outputs with records
	rng := rand.New(rand.NewPCG(1, 2))
	killed := 0
	for try := 0; ; try++ {
		operations := math.MaxInt
		if try < kills {
			operations = rng.IntN(count) // at least one operation an input
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childDirectory+"="+f.dir, fmt.Sprint(childOperations, "=", operations))
		cmd.Stderr = os.Stderr
		runErr := cmd.Run()
		records, err := d.readManifests(names)
		require.NoError(t, err)
		after, lost := written(t, d, inputs), 0
		for path := range finished {
			require.Equal(t, before[path], after[path], "%s was written again", path)
		}
		for name := range records {
			finished[d.outputPath(name)] = true
		}
		for path, at := range after {
			if !finished[path] && before[path] != at {
				lost++
			}
		}
		require.LessOrEqual(t, lost, childPart)
		f.checkRows(count, false)
		before = after
		if runErr == nil {
			break
		}
		killed++
		require.LessOrEqual(t, try, kills, "%v", runErr)
	}
	require.Positive(t, killed)
	f.checkRows(count, true)
	require.Len(t, finished, count)
}
