//go:build !386 && !arm

package extreme_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

const memoryVariable = "GRAPHRUN_MEMORY_CASE"

// memoryCases run in processes with 3 GiB of addresses. Each returns the error that it met.
var memoryCases = map[string]func(t *testing.T) error{
	"small storages": func(*testing.T) (err error) {
		defer tensor.CatchMemory(&err)
		var kept []*tensor.Storage
		for range 1 << 20 {
			kept = append(kept, tensor.NewStorage(1<<20))
		}
		return fmt.Errorf("%d MiB were allocated", len(kept))
	},
	"nonzero": func(t *testing.T) error {
		return runExpanded(t, 27, `{"name":"n","op":"nonzero","inputs":["e"]}`, `"n"`)
	},
	"masked_select": func(t *testing.T) error {
		return runExpanded(t, 30, `{"name":"n","op":"masked_select","inputs":["e","e"]}`, `"n"`)
	},
}

// runExpanded runs a node on 2^log elements that share one place in memory.
func runExpanded(t *testing.T, log int, node, output string) error {
	g := loadText(t, `{"version":1,"inputs":[{"name":"x","dtype":"bool","shape":[1,1]}],"nodes":[{"name":"e","op":"expand",
		"inputs":["x"],"attrs":{"size":[`+strconv.Itoa(1<<(log-13))+`,8192]}},`+node+`],"outputs":[`+output+`]}`)
	x := tensor.Zeros(tensor.Bool, 1, 1)
	x.Set(tensor.BoolScalar(true), 0, 0)
	_, err := graphrun.Run(t.Context(), g, map[string]*tensor.Tensor{"x": x})
	return err
}

func loadText(t *testing.T, text string) *graph.Graph {
	path := filepath.Join(t.TempDir(), "graph.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := graphrun.Load(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestMemoryErrors runs out of memory in processes of their own: each returns a MemoryError, and none ends.
func TestMemoryErrors(t *testing.T) {
	for name := range memoryCases {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
			defer stop()
			c := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestMemoryError$")
			c.Env = append(os.Environ(), memoryVariable+"="+name)
			if out, err := c.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("PASS")) {
				t.Fatalf("%v\n%s", err, out[:min(len(out), 4000)])
			}
		})
	}
}

// TestMemoryError is the process of one case.
func TestMemoryError(t *testing.T) {
	run := memoryCases[os.Getenv(memoryVariable)]
	if run == nil {
		t.Skip("it is a process of TestMemoryErrors")
	}
	const most = 3 << 30
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
		t.Fatal(err)
	}
	if err := run(t); !errors.As(err, new(*tensor.MemoryError)) && !errors.As(err, new(*graphrun.MemoryError)) {
		t.Fatalf("wanted is an error of too little memory, got %v", err)
	}
}

// TestExpandedConstantsAreNotFolded plans a sum of 2^40 elements, all of them one in memory, which takes no time if the
// run computes it.
func TestExpandedConstantsAreNotFolded(t *testing.T) {
	g := loadText(t, `{"version":1,"inputs":[],"constants":[{"name":"c","dtype":"float32","shape":[1],"data":[1]}],"nodes":[
		{"name":"e","op":"expand","inputs":["c"],"attrs":{"size":[1048576,1048576]}},
		{"name":"y","op":"sum","inputs":["e"]}],"outputs":["y"]}`)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	p, err := graphrun.Compile(ctx, g, graphrun.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(p.Report().Steps); n != 1 {
		t.Errorf("the plan has %d steps, want that of the sum", n)
	}
}

// TestCopiesOfInputsEnd ends the context of a run that copies 2^40 elements to the layout that the graph declares.
func TestCopiesOfInputsEnd(t *testing.T) {
	g := loadText(t, `{"version":1,"inputs":[{"name":"x","dtype":"uint8","shape":[1048576,1048576],"strides":[0,1]}],
		"nodes":[{"name":"y","op":"select","inputs":["x"],"attrs":{"dim":0,"index":0}}],"outputs":["y"]}`)
	x, err := tensor.Zeros(tensor.Uint8, 1, 1).Expanded([]int{1 << 20, 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	if _, err := graphrun.Run(ctx, g, map[string]*tensor.Tensor{"x": x}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, want the end of the context", err)
	}
}
