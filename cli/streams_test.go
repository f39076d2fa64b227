package cli

import (
	"archive/zip"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/graphrun/graphrun/cli/internal/exit"
)

// leaks are words of the system, of Go's packages and of its types.
var leaks = regexp.MustCompile(
	`lstat|open |strconv|invalid syntax|zip:|unexpected EOF|proto:|\bGo\b|\[\]int|map\[|json: (cannot|unmarshal|invalid)|flate:|no such file or directory`)

// TestNothingLeaks gives every loader what it cannot read, and demands our words.
func TestNothingLeaks(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	f, _ := z.Create("k.npy")
	f.Write([]byte("\x93NUMPY\x01\x00"))
	z.Close()
	put("junk.npz", "no archive")
	put("short.npz", b.String())
	put("junk.npy", "no array")
	put("junk.safetensors", "no tensors at all")
	put("types.safetensors", "\x3d\x00\x00\x00\x00\x00\x00\x00"+`{"k":{"dtype":"F32","shape":["two"],"data_offsets":[0,4]}}  `+"    ")
	const open = `{"version": 1, "inputs": [], "nodes": [], "outputs": ["k"],` + "\n" +
		`"constants": [{"name": "k", "dtype": "float32", "shape": [1], `
	for _, c := range []struct {
		name, text, want string
	}{
		{"a.json", open + `"file": "none.npy"}]}`, `a.json:2:15: constant "k": none.npy: there is no such file`},
		{"b.json", open + `"file": "junk.npz", "key": "k"}]}`, "b.json:2:15: constant \"k\": junk.npz: not an .npz archive"},
		{"c.json", open + `"file": "short.npz", "key": "k"}]}`, "c.json:2:15: constant \"k\": short.npz: entry \"k\": " +
			"truncated header"},
		{"d.json", open + `"file": "junk.npy"}]}`, "d.json:2:15: constant \"k\": junk.npy: not an .npy array: wrong magic"},
		{"e.json", open + `"file": "junk.safetensors", "key": "k"}]}`,
			"e.json:2:15: constant \"k\": junk.safetensors: header claims 8030883942550761326 bytes, 9 follow: the file " +
				"is truncated, or not in the safetensors format"},
		{"f.json", open + `"file": "types.safetensors", "key": "k"}]}`,
			"f.json:2:15: constant \"k\": types.safetensors: tensor \"k\": \"shape/0\" has the wrong type"},
		{"junk.onnx", "\x00\x01\x02", "junk.onnx: not an ONNX model: the file is truncated, or has another format"},
		{"zip.onnx", b.String(), "zip.onnx: not an ONNX model: it is a zip archive, as .npz files and PyTorch's " +
			".pt files are"},
		{"model.json", "\x08\x07", "model.json:1:1: the file is binary, not a graph file: the name of an " +
			"ONNX model must end in .onnx"},
	} {
		path := put(c.name, c.text)
		r := call(t, "infer", path)
		want := filepath.Join(dir, c.want) + "\n"
		if filepath.Ext(path) == ".onnx" {
			want = "graphrun: " + want
		}
		if r.code != exit.CodeUsage || r.errors != want {
			t.Errorf("exit %d\ngot  %swant %s", r.code, r.errors, want)
		}
	}
	for _, path := range []string{filepath.Join(dir, "none.json"), filepath.Join(dir, "none.onnx"), dir} {
		r := call(t, "infer", path)
		want := "graphrun: " + path + ": there is no such file\n"
		if path == dir {
			want = "graphrun: " + path + ": this is a folder, not a file\n"
		}
		if r.code != exit.CodeUsage || r.errors != want {
			t.Errorf("exit %d\ngot  %swant %s", r.code, r.errors, want)
		}
	}
	good := write(t, "g.json", unbound)
	for _, args := range [][]string{
		{"run", good, "--inputs", filepath.Join(dir, "junk.npz")},
		{"run", good, "--input", "x=" + filepath.Join(dir, "none.npy")},
		{"run", good, "--inputs", filepath.Join(dir, "none.npz")}, {"infer", good, "--dim", "N=x"},
		{"infer", good, "--dim", "NN=3"},
	} {
		if r := call(t, args...); r.code != exit.CodeUsage || leaks.MatchString(r.errors) {
			t.Errorf("%v: exit %d, %s", args, r.code, r.errors)
		}
	}
	if r := call(t, "infer", good, "--dim", "NN=3"); r.errors !=
		"graphrun: --dim NN=3: "+good+" has no symbolic dimension \"NN\"; did you mean N?\n" {
		t.Error(r.errors)
	}
}

// TestHelpIsNarrow: terminals with 120 columns do not break lines of help texts.
func TestHelpIsNarrow(t *testing.T) {
	root := newRoot(extend(t))
	for _, cmd := range append(root.Commands(), root) {
		for line := range strings.Lines(cmd.Long) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 120 {
				t.Errorf("%s: a line of %d: %s", cmd.Name(), n, line)
			}
		}
	}
}

// refusing fails as a full disk does.
type refusing struct{}

func (refusing) Write([]byte) (int, error) {
	return 0, &fs.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}
}

func TestFullDisk(t *testing.T) {
	path := write(t, "g.json", unbound)
	for _, args := range [][]string{{"run", path}, {"infer", path, "--json"}, {"ops"}, {"schema"}, {"version"}} {
		var errs bytes.Buffer
		code := execute(t.Context(), extend(t), args, refusing{}, &errs)
		if want := "graphrun: /dev/stdout: the disk is full\n"; code != exit.CodeFailed ||
			!strings.HasSuffix(errs.String(), want) {
			t.Errorf("%v: exit %d, %q", args, code, errs.String())
		}
	}
}
