package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/npz"
)

// batchOfThree writes a model and three inputs for it. The second input is invalid. It returns the arguments of a
// run and the directory of its outputs.
func batchOfThree(t *testing.T) (args []string, in, out string) {
	t.Helper()
	model := write(t, "double.json", `{"version": 1, "symbols": {"N": {}},
		"inputs": [{"name": "x", "dtype": "float32", "shape": ["N", 2]}],
		"nodes": [{"name": "y", "op": "mul", "inputs": ["x", 2]}], "outputs": ["y"]}`)
	in, out = t.TempDir(), filepath.Join(t.TempDir(), "out")
	for name, text := range map[string]string{"a.csv": "1,2\n3,4\n", "b.csv": "1,2,3\n", "c.jsonl": "[5, 6]\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(in, name), []byte(text), 0o600))
	}
	return []string{"batch", model, "--inputs", filepath.Join(in, "*"), "--outputs", out}, in, out
}

// rowsOf returns the output y of an input as text.
func rowsOf(t *testing.T, out, name string) string {
	t.Helper()
	arrays, err := npz.ReadFile(filepath.Join(out, name+".npz"))
	require.NoError(t, err)
	require.Contains(t, arrays, "y")
	var list []float64
	for row := range arrays["y"].Shape[0] {
		list = append(list, arrays["y"].At(row, 0).Float(), arrays["y"].At(row, 1).Float())
	}
	return fmt.Sprint(list)
}

func TestBatch(t *testing.T) {
	args, in, out := batchOfThree(t)
	with := func(flags ...string) []string { return append(args[:len(args):len(args)], flags...) }

	r := call(t, with("--status")...)
	assert.Equal(t, result{out: "done 0, failed 0, missing 3\n"}, r)
	r = call(t, args...)
	assert.Equal(t, exit.CodeFailed, r.code)
	assert.Equal(t, "done 2, skipped 0, failed 1\n", r.out)
	assert.Contains(t, r.errors, "b.csv")
	assert.Equal(t, "[2 4 6 8]", rowsOf(t, out, "a"))
	assert.Equal(t, "[10 12]", rowsOf(t, out, "c"))
	assert.NoFileExists(t, filepath.Join(out, "b.npz"))

	r = call(t, with("--status")...)
	assert.Equal(t, exit.CodeFailed, r.code)
	assert.True(t, strings.HasSuffix(r.out, "done 2, failed 1, missing 0\n"), r.out)
	assert.Contains(t, r.out, "b.csv: ")
	assert.Equal(t, "done 0, skipped 2, failed 1\n", call(t, with("--retry")...).out)

	require.NoError(t, os.WriteFile(filepath.Join(in, "b.csv"), []byte("7,8\n"), 0o600))
	r = call(t, with("--retry")...)
	assert.Equal(t, 0, r.code, r.errors)
	assert.Equal(t, "done 1, skipped 2, failed 0\n", r.out)
	assert.Equal(t, "[14 16]", rowsOf(t, out, "b"))
	assert.Equal(t, "done 0, skipped 3, failed 0\n", call(t, args...).out)
}

// TestBatchShards: the shards together make the outputs of a whole run.
func TestBatchShards(t *testing.T) {
	args, _, out := batchOfThree(t)
	sums := [3]int{}
	for _, shard := range []string{"1/3", "2/3", "3/3"} {
		r := call(t, append(args[:len(args):len(args)], "--shard", shard)...)
		if strings.Contains(r.errors, "no file") {
			continue // the shard is empty
		}
		var n [3]int
		_, err := fmt.Sscanf(r.out, "done %d, skipped %d, failed %d\n", &n[0], &n[1], &n[2])
		require.NoError(t, err, r)
		for i := range n {
			sums[i] += n[i]
		}
	}
	assert.Equal(t, [3]int{2, 0, 1}, sums)
	assert.Equal(t, "[2 4 6 8]", rowsOf(t, out, "a"))
	assert.Equal(t, "[10 12]", rowsOf(t, out, "c"))
}

func TestBatchUsage(t *testing.T) {
	args, in, _ := batchOfThree(t)
	for _, flags := range [][]string{{"--shard", "3/2"}, {"--max-batch-size", "0"}, {"--part-size", "0"},
		{"--resize", "1,2,3"}, {"--threads", "-1"}, {"--dim", "Q=2"}} {
		assert.Equal(t, exit.CodeUsage, call(t, append(args[:len(args):len(args)], flags...)...).code, flags)
	}
	assert.Equal(t, exit.CodeUsage, call(t, args[:4]...).code, "no --outputs")
	assert.Equal(t, exit.CodeUsage, call(t, "batch", args[1], "--outputs", in).code, "no --inputs")
	r := call(t, "batch", args[1], "--inputs", filepath.Join(in, "*.png"), "--outputs", in)
	assert.Equal(t, exit.CodeUsage, r.code)
	assert.Contains(t, r.errors, "no file matches")
}
