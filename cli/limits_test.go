package cli

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/tensor"
)

// limited runs a command line in a process of its own that may have so many KiB of
// address space.
func limited(t *testing.T, kib int, args ...string) result {
	t.Helper()
	p := process(t, args...)
	p.Args = append([]string{"sh", "-c", fmt.Sprintf(`ulimit -v %d && exec "$0" "$@"`, kib), p.Path}, args...)
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no shell to set limits with")
	}
	p.Path = sh
	var out, errs bytes.Buffer
	p.Stdout, p.Stderr = &out, &errs
	if err := p.Run(); err != nil && p.ProcessState == nil {
		t.Fatal(err)
	}
	return resultOf(p.ProcessState.ExitCode(), out.String(), errs.String())
}

// sixGB is the limit under which a run of 8 GiB died.
const sixGB = 6000000

// underLimit skips where processes cannot be limited, or this binary does not even start:
// the race detector takes terabytes of addresses.
func underLimit(t *testing.T) {
	if r := limited(t, sixGB, "version"); r.code != 0 {
		t.Skipf("no process under a limit of address space: exit %d, %s", r.code, r.errors)
	}
}

const repeated = `{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [1]}],
 "nodes": [{"name": "r", "op": "repeat", "inputs": ["x"], "attrs": {"repeats": [1073741824]}},
           {"name": "y", "op": "flip", "inputs": ["r"], "attrs": {"dims": [0]}},
           {"name": "z", "op": "neg", "inputs": ["x"]}],
 "outputs": ["y", "z"]}`

func TestRunsThatDoNotFit(t *testing.T) {
	underLimit(t)
	path := write(t, "g.json", repeated)
	for _, args := range [][]string{{"run"}, {"run", "--json"}, {"bench", "--runs", "1"}, {"compare", "--runs", "1"}} {
		r := limited(t, sixGB, append(args, path)...)
		for _, want := range []string{"a run needs 8 GiB of memory", "the address space of the process (ulimit -v) " +
			"is 5.722 GiB",
			`value "r" (float32[1073741824], 4 GiB)`, `output "y"`} {
			if r.code != exit.CodeFailed || !strings.Contains(r.errors, want) || strings.Contains(r.errors, "goroutine") {
				t.Errorf("%v: exit %d, no %q in\n%.2000s", args, r.code, want, r.errors)
			}
		}
	}
	if r := limited(t, sixGB, "plan", path); r.code != exit.CodeDone ||
		!regexp.MustCompile(`arena +4 GiB\noutputs +4 GiB\nall .+ 8 GiB\n(.+GiB\n)*That exceeds the available memory`).MatchString(
			r.out) {
		t.Errorf("plan: exit %d\n%s%s", r.code, r.out, r.errors)
	}
	saved := filepath.Join(t.TempDir(), "out.npz")
	r := limited(t, sixGB, "run", "--keep-going", "--outputs", saved, path)
	got, err := npz.ReadFile(saved)
	if r.code != exit.CodeFailed || err != nil || len(got) != 1 || got["z"] == nil {
		t.Errorf("keep going: exit %d, %v, %v\n%s", r.code, err, got, r.errors)
	}
	for _, want := range []string{`node "r" (repeat): `, `the address space of the process (ulimit -v) is 5.722 GiB`,
		`output "y" is left out: it depends on node "r"`} {
		if !strings.Contains(r.errors, want) {
			t.Errorf("keep going: no %q in\n%s", want, r.errors)
		}
	}
}

func TestMadeUpInputsThatDoNotFit(t *testing.T) {
	underLimit(t)
	path := write(t, "g.json",
		`{"version": 1, "inputs": [{"name": "x", "dtype": "uint8", "shape": [3000000000]}, {"name": "y", "dtype": "uint8", "shape": [3000000000]}],
 "nodes": [{"name": "z", "op": "amax", "inputs": ["x"]}], "outputs": ["z"]}`)
	r := limited(t, sixGB, "run", path)
	if r.code != exit.CodeFailed || !strings.Contains(r.errors, "a run needs 5.588 GiB of memory (inputs 5.588 GiB)") {
		t.Errorf("exit %d\n%.2000s", r.code, r.errors)
	}
}

// TestPartsThatDoNotFit has a result that only the run knows to be too large, in a part of
// a graph whose shapes depend on data.
func TestPartsThatDoNotFit(t *testing.T) {
	underLimit(t)
	path := write(t, "g.json", `{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [100]}],
 "nodes": [{"name": "n", "op": "nonzero", "inputs": ["x"]},
           {"name": "few", "op": "neg", "inputs": ["n"]},
           {"name": "big", "op": "repeat", "inputs": ["n"], "attrs": {"repeats": [10000000, 1]}},
           {"name": "bigger", "op": "neg", "inputs": ["big"]}],
 "outputs": ["bigger", "few"]}`)
	r := limited(t, sixGB, "run", path)
	if r.code != exit.CodeFailed || !strings.Contains(r.errors, "of memory") || strings.Contains(r.errors, "goroutine") {
		t.Errorf("exit %d\n%.2000s", r.code, r.errors)
	}
	r = limited(t, sixGB, "run", "--keep-going", path)
	if r.code != exit.CodeFailed || !strings.HasPrefix(r.out, "few ") ||
		!strings.Contains(r.errors, `output "bigger" is left out: it depends on node "big"`) {
		t.Errorf("keep going: exit %d\n%s%.2000s", r.code, r.out, r.errors)
	}
}

// bomb is an .npz file whose array "x" of 256 MiB takes a thousandth of that on disk.
func bomb(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bomb.npz")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text := fmt.Sprintf("%-117s\n", "{'descr': '<f4', 'fortran_order': False, 'shape': (67108864,), }")
	z := zip.NewWriter(f)
	w, err := z.Create("x.npy")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(w, "\x93NUMPY\x01\x00%s%s", binary.LittleEndian.AppendUint16(nil, uint16(len(text))), text)
	zeros := make([]byte, 1<<20)
	for range 256 {
		w.Write(zeros)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestArraysAreReadOnlyIfTheyFit(t *testing.T) {
	path, in := write(t, "g.json", `{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [4]}],
 "nodes": [{"name": "y", "op": "relu", "inputs": ["x"]}], "outputs": ["y"]}`), bomb(t)
	inFile := `{"version": 1, "inputs": [], "constants": [{"name": "c", "dtype": "float32", "shape": [4], "file": "bomb.npz", "key": "x"}],
 "nodes": [{"name": "y", "op": "relu", "inputs": ["c"]}], "outputs": ["y"]}`
	constant := filepath.Join(filepath.Dir(in), "g.json")
	if err := os.WriteFile(constant, []byte(inFile), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		`input "x": the file holds float32[67108864], the graph wants float32[4]`:   {"run", path, "--inputs", in},
		`constant "c": the file holds float32[67108864], the graph says float32[4]`: {"infer", constant},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := call(t, args...)
		runtime.ReadMemStats(&after)
		if taken := after.TotalAlloc - before.TotalAlloc; taken > 64<<20 {
			t.Errorf("%v: %d bytes were taken", args, taken)
		}
		if r.code != exit.CodeUsage || !strings.Contains(r.errors, want) {
			t.Errorf("%v: exit %d, want %q in\n%s", args, r.code, want, r.errors)
		}
	}
}

func TestMisspeltKeys(t *testing.T) {
	path := write(t, "g.json", small)
	for key, want := range map[string]string{
		"X":    "in.npz has X; did you mean X?): give an array for it",
		"else": "in.npz has else): give an array for it",
	} {
		in := saved(t, map[string]*tensor.Tensor{key: counted(tensor.Float32, 2, 3, 4, 5)})
		if r := call(t, "run", path, "--inputs", in, "--seed", "1"); r.code != exit.CodeDone ||
			!strings.Contains(r.errors, "note: "+in+": no input takes "+key+"\n") {
			t.Errorf("%s with a seed: exit %d\n%s", key, r.code, r.errors)
		}
		r := call(t, "run", path, "--inputs", in)
		if r.code != exit.CodeUsage || !strings.Contains(r.errors, want) {
			t.Errorf("%s: exit %d, want %q in\n%s", key, r.code, want, r.errors)
		}
	}
}
