//go:build !386 && !arm

package extreme_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/tensor"
)

// extremeGraph is a graph of one node with an attribute far beyond its data. Its operands are ones, int64 ones too.
type extremeGraph struct {
	name, op, attrs string
	operands        string  // declarations of inputs, or of constants where they have data
	refused         string  // a part of the error; "memory": a MemoryError; "": the graph runs
	first           float64 // element of the result
}

const (
	line8   = `{"dtype":"float32","shape":[1,1,8]}`
	plane8  = `{"dtype":"float32","shape":[1,1,8,8]}`
	plane4  = `{"dtype":"float32","shape":[1,1,4,4]}`
	number1 = `{"dtype":"float32","shape":[1]}`
)

var extremeGraphs = []extremeGraph{
	{"ada", "adaptive_avg_pool2d", `{"output_size":[17179869184,1]}`, plane4, "memory", 0},
	{"ada_wide", "adaptive_max_pool2d", `{"output_size":[1,100000]}`, plane4, "", 1},
	{"ap_1d", "avg_pool1d", `{"kernel_size":1099511627776,"padding":549755813888,"stride":1}`, line8, "", 8.0 / (1 << 40)},
	{"ap_k32", "avg_pool2d", `{"kernel_size":4294967296,"padding":2147483648}`, plane8, "", 64 * 0x1p-64},
	{"ap_k46", "avg_pool2d", `{"kernel_size":70368744177664,"padding":35184372088832,"stride":1}`, plane8, "",
		64 * 0x1p-92},
	{"ap_k62", "avg_pool2d", `{"kernel_size":4611686018427387904,"padding":2305843009213693952}`, plane8,
		"kernel_size", 0},
	{"ap_zero", "avg_pool2d", `{"kernel_size":2}`, `{"dtype":"float32","shape":[0,3,4,2147483648]}`, "", 0},
	{"mp_k46", "max_pool2d", `{"kernel_size":70368744177664,"padding":35184372088832}`, plane8, "", 1},
	{"mp_1d", "max_pool1d", `{"kernel_size":70368744177664,"padding":35184372088832}`, line8, "", 1},
	{"mp_dil", "max_pool2d", `{"kernel_size":5,"dilation":70368744177664}`, plane8, "too small", 0},
	{"mp_long", "max_pool1d", `{"kernel_size":1048576,"stride":1}`, `{"dtype":"float32","shape":[1,1,1049088]}`, "", 1},
	{"mp1wi", "max_pool1d_with_indices", `{"kernel_size":2,"padding":[70368744177664,2]}`, line8, "memory", 0},
	{"lp_dil", "lp_pool", `{"kernel_size":[2147483649,2147483648],"dilation":4294967295}`, plane8, "too small", 0},
	{"up", "upsample_bilinear2d", `{"output_size":[2147483648,1],"align_corners":false}`, plane4, "memory", 0},
	{"up_zero", "upsample_bilinear2d", `{"output_size":[2147483648,1],"align_corners":false}`,
		`{"dtype":"float32","shape":[0,1,4,4]}`, "", 0},
	{"up_bytes", "upsample_nearest1d", `{"output_size":[536870912]}`, `{"dtype":"uint8","shape":[1,1,4]}`, "memory", 0},
	{"up_linear", "upsample_linear1d", `{"output_size":[1048576],"align_corners":false}`, line8, "", 1},
	{"up_scale", "upsample_nearest1d", `{"output_size":[8],"scales":1e-300}`, line8, "", 1},
	{"rz", "resize", `{"antialias":true,"mode":"cubic","scales":[1,1,0.6,2]}`,
		`{"dtype":"float32","shape":[1,2,262144,4]}`, "", 1},
	{"fft", "fft_irfft", `{}`, `{"dtype":"complex64","shape":[1,1048576]}`, "", 1},
	{"multin", "multinomial", `{"num_samples":200000,"replacement":true}`, `{"dtype":"float32","shape":[100000]}`,
		"", math.NaN()},
	{"multin_each", "multinomial", `{"num_samples":200000}`, `{"dtype":"float32","shape":[200000]}`, "", math.NaN()},
	{"padrep", "pad", `{"pad":[0,67108864],"mode":"replicate"}`, `{"dtype":"float16","shape":[1,1]}`, "", 1},
	{"padrep3", "pad", `{"pad":[0,1073741824],"mode":"replicate"}`, `{"dtype":"float16","shape":[1,1]}`, "memory", 0},
	{"pad_none", "pad", `{"pad":[1,0,2,2199023255552]}`, `{"dtype":"float32","shape":[3,0,0,4]}`, "", 0},
	{"ri_run", "repeat_interleave", `{"dim":0}`, number1 + `,{"dtype":"int64","shape":[1]}`, "", 1},
	{"ri_const", "repeat_interleave", `{"dim":0}`, number1 + `,{"dtype":"int64","shape":[1],"data":[1073741824]}`,
		"memory", 0},
	{"ri_infer", "repeat_interleave", `{"dim":0}`, number1 + `,{"dtype":"int64","shape":[1],"data":[1099511627776]}`,
		"memory", 0},
	{"ri_empty", "repeat_interleave", `{"dim":1,"output_size":8589934591}`,
		`{"dtype":"uint8","shape":[0,1]},{"dtype":"int64","shape":[1],"data":[8589934591]}`, "", 0},
	{"ri_much", "repeat_interleave", `{"dim":0,"repeats":2147483648}`, `{"dtype":"int8","shape":[2147483648]}`, "too many", 0},
	{"roi", "roi_align", `{"pooled_height":1,"pooled_width":1,"sampling_ratio":1073741824}`,
		plane4 + `,{"dtype":"float32","shape":[1,5]}`, "sampling_ratio", 0},
	{"roi_empty", "roi_align", `{"pooled_height":2,"pooled_width":1,"aligned":true,"sampling_ratio":1,"spatial_scale":0}`,
		`{"dtype":"float32","shape":[2,3,0,5]},{"dtype":"float32","shape":[2,5]}`, "", 0},
	{"overlaps", "empty_strided", `{"size":[2,11728124029610],"stride":[0,0],"dtype":"bfloat16"}`, "", "", 0}, // of 2 bytes
	{"overlaps_by_1", "empty_strided", `{"size":[8388608,4194304],"stride":[1,1],"dtype":"uint8"}`, "", "", 0},
	{"tfidf", "tfidf_vectorizer", `{"max_gram_length":2,"min_gram_length":1,"max_skip_count":2147483648,"mode":"TF",
		"ngram_counts":[0,1],"ngram_indexes":[0,1],"pool_int64s":[1,1,1]}`, `{"dtype":"int64","shape":[100]}`, "", 100},
	{"shuffle", "pixel_shuffle", `{"upscale_factor":1099511627776}`, plane4, "upscale_factor", 0},
	{"dts", "depth_to_space", `{"block_size":4294967296}`, plane4, "block_size", 0},
	{"std", "space_to_depth", `{"block_size":4294967296}`, `{"dtype":"float32","shape":[1,4,0,0]}`, "block_size", 0},
}

const extremeGraphVariable = "GRAPHRUN_EXTREME_GRAPH"

// TestExtremeGraphs plans and runs each graph in a process of its own, whose memory and time are bounded: a fault
// fails, and does not take the machine with it.
func TestExtremeGraphs(t *testing.T) {
	for i := range extremeGraphs {
		x := &extremeGraphs[i]
		t.Run(x.name, func(t *testing.T) {
			ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
			defer stop()
			c := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestExtremeGraph$")
			c.Env = append(os.Environ(), extremeGraphVariable+"="+x.name)
			if out, err := c.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("PASS")) {
				t.Fatalf("%v\n%s", err, out[:min(len(out), 4000)])
			}
		})
	}
}

// TestExtremeGraph is the process of one graph.
func TestExtremeGraph(t *testing.T) {
	name := os.Getenv(extremeGraphVariable)
	if name == "" {
		t.Skip("it is a process of TestExtremeGraphs")
	}
	const most = 8 << 30
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
		t.Fatal(err)
	}
	for i := range extremeGraphs {
		if x := &extremeGraphs[i]; x.name == name {
			if err := x.check(t); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatal("there is no such graph")
}

// json is the graph file.
func (x *extremeGraph) json() string {
	var inputs, constants, names []string
	for i, d := range strings.Split(strings.ReplaceAll(x.operands, "},{", "}|{"), "|") {
		if d == "" {
			break
		}
		names = append(names, fmt.Sprintf(`"x%d"`, i))
		d = fmt.Sprintf(`{"name":"x%d",`, i) + d[1:]
		if strings.Contains(d, `"data"`) {
			constants = append(constants, d)
		} else {
			inputs = append(inputs, d)
		}
	}
	outputs := ""
	if strings.HasSuffix(x.op, "_with_indices") || x.op == "adaptive_max_pool2d" {
		outputs = `,"outputs":["y","i"]`
	}
	return fmt.Sprintf(`{"version":1,"inputs":[%s],"constants":[%s],"nodes":[{"name":"n","op":%q,"inputs":[%s],"attrs":%s%s}],
		"outputs":[%q]}`, strings.Join(inputs, ","), strings.Join(constants, ","), x.op, strings.Join(names, ","), x.attrs,
		outputs, map[bool]string{true: "y", false: "n"}[outputs != ""])
}

func (x *extremeGraph) check(t *testing.T) error {
	before := allocated()
	out, err := x.run(t, before)
	switch {
	case x.refused == "memory":
		if !errors.As(err, new(*graphrun.MemoryError)) && !errors.As(err, new(*tensor.MemoryError)) &&
			(err == nil || !strings.Contains(err.Error(), "too many elements")) {
			return fmt.Errorf("wanted is an error of too little memory, got %v", err)
		}
		return nil
	case x.refused != "":
		if err == nil || !strings.Contains(err.Error(), x.refused) {
			return fmt.Errorf("wanted is an error that says %q, got %v", x.refused, err)
		}
		return nil
	case err != nil || out.Numel() == 0:
		return err
	}
	at := make([]int, out.Rank())
	if got := out.At(at...).Float(); math.Abs(got-x.first) > 1e-5*math.Abs(x.first) {
		return fmt.Errorf("the first element of the result is %v, want %v", got, x.first)
	}
	return nil
}

// run plans and runs the graph with at most 1 GiB. Planning must not allocate in proportion to results.
func (x *extremeGraph) run(t *testing.T, before uint64) (*tensor.Tensor, error) {
	path := filepath.Join(t.TempDir(), "graph.json")
	if err := os.WriteFile(path, []byte(x.json()), 0o600); err != nil {
		return nil, err
	}
	g, err := graphrun.Load(t.Context(), path)
	if err != nil {
		return nil, err
	}
	p, err := graphrun.Compile(t.Context(), g, graphrun.Options{MemoryLimit: 1 << 30, Threads: 2})
	if n := allocated() - before; n > 128<<20 {
		t.Fatalf("planning allocates %d bytes", n)
	}
	if err != nil {
		return nil, err
	}
	in := map[string]*tensor.Tensor{}
	for _, v := range g.Inputs {
		in[v.Name] = tensor.Empty(v.Meta)
		one := tensor.FloatScalar(1)
		if v.Meta.DType.IsIntegral(false) {
			one = tensor.IntScalar(1)
		}
		for i := range v.Meta.Numel() {
			in[v.Name].SetFlat(i, one)
		}
	}
	out, err := p.Run(t.Context(), in)
	for _, y := range out {
		return y, err
	}
	return nil, err
}
