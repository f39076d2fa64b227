package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/outfile"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/tensor"
)

// TestUnwritable gives every command a file that cannot be written and an invalid graph: the error is that of the file,
// which is checked first.
func TestUnwritable(t *testing.T) {
	bad, dir := write(t, "bad.json", broken), t.TempDir()
	file := write(t, "file", "")
	for _, ext := range []string{".npz", ".html", ".svg", ".dot", ".json"} {
		if err := os.Mkdir(filepath.Join(dir, "folder"+ext), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args []string
		ext  string
	}{
		{[]string{"run", bad, "--outputs"}, ".npz"},
		{[]string{"compare", bad, "--report"}, ".html"},
		{[]string{"view", bad, "-o"}, ".dot"},
		{[]string{"view", bad, "-o"}, ".svg"},
		{[]string{"convert", bad}, ".json"},
	} {
		for path, want := range map[string]string{
			filepath.Join(dir, "folder"+c.ext):    "the path is a folder, not a file",
			filepath.Join(dir, "no", "out"+c.ext): "the folder " + filepath.Join(dir, "no") + " does not exist",
			filepath.Join(file, "out"+c.ext):      file + " is not a folder",
		} {
			r := call(t, append(c.args, path)...)
			if r.code != exit.CodeUsage || r.out != "" || !strings.Contains(r.errors, path+": "+want) ||
				strings.Contains(r.errors, sizeMismatch) {
				t.Errorf("%v %s: exit %d, want %q in %q", c.args, path, r.code, want, r.errors)
			}
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 5 {
		t.Errorf("left are %v", left)
	}
}

// divided fails in its run where d holds a zero.
const divided = `{"version": 1, "inputs": [{"name": "d", "dtype": "int64", "shape": [200]}],
 "nodes": [{"name": "q", "op": "floor_divide", "inputs": [100, "d"]}], "outputs": ["q"]}`

// TestFailedRunKeepsFile has a file that a run does not get to replace.
func TestFailedRunKeepsFile(t *testing.T) {
	path, out := write(t, "g.json", divided), filepath.Join(t.TempDir(), "out.npz")
	if err := os.WriteFile(out, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := call(t, "run", path, "--outputs", out)
	if r.code != exit.CodeFailed || !strings.Contains(r.errors, "ZeroDivisionError") {
		t.Errorf("exit %d, %s", r.code, r.errors)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(out), "*"))
	require.NoError(t, err)
	assert.Equal(t, "old", string(read(t, out)))
	assert.Equal(t, []string{out}, left)
	ones := tensor.Zeros(tensor.Int64, 200)
	for i := range 200 {
		ones.SetFlat(i, tensor.IntScalar(4))
	}
	succeed(t, "run", path, "--outputs", out, "--inputs", saved(t, map[string]*tensor.Tensor{"d": ones}))
	got, err := npz.ReadFile(out)
	if err != nil || got["q"].At(7).Int() != 25 {
		t.Errorf("%v, %v", err, got)
	}
}

// TestLinkToNothing writes through a link whose file is still to be made.
func TestLinkToNothing(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "to"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"link.npz": filepath.Join("to", "out.npz"),
		"lost.npz": filepath.Join("no", "out.npz")} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	graph := write(t, "g.json", unbound)
	succeed(t, "run", graph, "--outputs", filepath.Join(dir, "link.npz"))
	if _, err := npz.ReadFile(filepath.Join(dir, "to", "out.npz")); err != nil {
		t.Error(err)
	}
	if st, err := os.Lstat(filepath.Join(dir, "link.npz")); err != nil || st.Mode()&os.ModeSymlink == 0 {
		t.Errorf("%v: the link is gone", err)
	}
	r := call(t, "run", graph, "--outputs", filepath.Join(dir, "lost.npz"))
	if r.code != exit.CodeUsage || !strings.Contains(r.errors, "the folder "+filepath.Join(dir, "no")+" does not exist") {
		t.Errorf("exit %d, %s", r.code, r.errors)
	}
}

// TestEmptyFlags rejects the empty values that unset shell variables give.
func TestEmptyFlags(t *testing.T) {
	graph := write(t, "g.json", unbound)
	for _, args := range [][]string{{"run", "--inputs"}, {"run", "--outputs"}, {"bench", "--inputs"},
		{"compare", "--report"},
		{"plan", "--strategy"}, {"view", "--output"}} {
		r := call(t, args[0], graph, args[1], "")
		if want := "graphrun: " + args[1] + " is empty\n"; r.code != exit.CodeUsage || r.errors != want {
			t.Errorf("%v: exit %d, %q, want %q", args, r.code, r.errors, want)
		}
	}
}

func TestUnwritableInPlainWords(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("x", 300)+".npz")
	r := call(t, "run", write(t, "g.json", unbound), "--outputs", path)
	if r.code != exit.CodeUsage || r.errors != "graphrun: --outputs "+path+": its name is too long\n" {
		t.Errorf("exit %d, %q", r.code, r.errors)
	}
	gone := &os.LinkError{Op: "rename", Old: "a", New: "b", Err: fs.ErrPermission}
	if got := outfile.Cause(gone).Error(); got != "it may not be opened: permission is denied" {
		t.Error(got)
	}
	if got := outfile.Cause(&fs.PathError{Op: "open", Path: "/proc/x", Err: fs.ErrNotExist}).Error(); got !=
		"no file can be created in this folder" {
		t.Error(got)
	}
}
