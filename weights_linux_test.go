package graphrun_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/internal/jit"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/onnx"
	"github.com/graphrun/graphrun/tensor"
)

// decoderOf is a model in a file: a decoder with weights of one dtype.
type decoderOf struct {
	layers, width, tokens int
	weights               string // float32, float16, bfloat16, int8 or int4
	isTied                bool   // the logits are products with the table of the tokens
	graph                 *pb.GraphProto
	weightBytes           int
	largestBytes          int // of a weight
}

// activations returns the dtype of the values that are not weights.
func (d *decoderOf) activations() (pb.DataType, tensor.DType) {
	switch d.weights {
	case "float16":
		return pb.Float16, tensor.Float16
	case "bfloat16":
		return pb.BFloat16, tensor.BFloat16
	}
	return pb.Float, tensor.Float32
}

// constant adds an initializer, whose bytes repeat the given ones.
func (d *decoderOf) constant(name string, dtype pb.DataType, pattern []byte, dims ...int) string {
	p := &pb.TensorProto{Name: name, DataType: int32(dtype)}
	size := map[pb.DataType]int{pb.Float: 4, pb.Float16: 2, pb.BFloat16: 2, pb.Int8: 1, pb.Uint8: 1}[dtype]
	for _, dim := range dims {
		p.Dims, size = append(p.Dims, int64(dim)), size*dim
	}
	p.RawData = make([]byte, size)
	for filled := copy(p.RawData, pattern); filled < size; filled *= 2 {
		copy(p.RawData[filled:], p.RawData[:filled])
	}
	d.graph.Initializer, d.weightBytes = append(d.graph.Initializer, p), d.weightBytes+size
	d.largestBytes = max(d.largestBytes, size)
	return name
}

// smallNumbers returns n small numbers of a dtype.
func smallNumbers(dtype tensor.DType, n int) []byte {
	t := tensor.Zeros(dtype, n)
	for i := range n {
		t.Set(tensor.FloatScalar(math.Sin(float64(i+1))/16), i)
	}
	return t.Storage().Bytes()
}

// node adds a node and returns the name of its first result.
func (d *decoderOf) node(op string, in []string, out string, attrs ...*pb.AttributeProto) string {
	n := &pb.NodeProto{OpType: op, Name: out, Input: in, Output: []string{out}, Attribute: attrs}
	switch op {
	case "DynamicQuantizeLinear":
		n.Output = append(n.Output, out+".scale", out+".zero")
	case "MatMulNBits":
		n.Domain = "com.microsoft"
	}
	d.graph.Node = append(d.graph.Node, n)
	return out
}

// product multiplies x by a weight of rows x cols elements.
func (d *decoderOf) product(x, name string, rows, cols int) string {
	dtype, elements := d.activations()
	number := func(name string, v int64) *pb.AttributeProto {
		return &pb.AttributeProto{Name: name, Type: pb.AttributeInt, I: v}
	}
	random := make([]byte, 997)
	for i := range random {
		random[i] = byte(i * i * 31)
	}
	switch d.weights {
	case "int8":
		d.constant(name+".scale", pb.Float, smallNumbers(tensor.Float32, 1))
		d.node("DynamicQuantizeLinear", []string{x}, name+".q")
		sums := d.node("MatMulInteger", []string{name + ".q", d.constant(name+".w", pb.Int8, random, rows, cols),
			name + ".q.zero"}, name+".sums")
		sums = d.node("Cast", []string{sums}, name+".float", number("to", int64(pb.Float)))
		scale := d.node("Mul", []string{name + ".q.scale", name + ".scale"}, name+".scales")
		return d.node("Mul", []string{sums, scale}, name)
	case "int4":
		const block = 32
		return d.node("MatMulNBits", []string{x, d.constant(name+".w", pb.Uint8, random, cols, rows/block, block/2),
			d.constant(name+".scale", pb.Float, smallNumbers(elements, 991), cols*rows/block)}, name, number("K", int64(rows)),
			number("N", int64(cols)), number("bits", 4), number("block_size", block))
	}
	return d.node("MatMul", []string{x, d.constant(name+".w", dtype, smallNumbers(elements, 991), rows, cols)}, name)
}

// write writes the model.
func (d *decoderOf) write(t *testing.T, file string) {
	dtype, elements := d.activations()
	value := func(name string, dtype pb.DataType, dims ...any) *pb.ValueInfoProto {
		shape := &pb.TensorShapeProto{}
		for _, dim := range dims {
			switch x := dim.(type) {
			case int:
				shape.Dim = append(shape.Dim, &pb.Dimension{DimValue: new(int64(x))})
			case string:
				shape.Dim = append(shape.Dim, &pb.Dimension{DimParam: x})
			}
		}
		return &pb.ValueInfoProto{Name: name, Type: &pb.TypeProto{TensorType: &pb.TensorType{ElemType: int32(dtype),
			Shape: shape}}}
	}
	axis := func(n int64) *pb.AttributeProto { return &pb.AttributeProto{Name: "axis", Type: pb.AttributeInt, I: n} }
	norm := func(x, name string) string {
		w := d.constant(name+".w", dtype, smallNumbers(elements, 1), d.width)
		return d.node("LayerNormalization", []string{x, w}, name)
	}
	d.graph = &pb.GraphProto{Name: "decoder"}
	table := d.constant("table", dtype, smallNumbers(elements, 991), d.tokens, d.width)
	d.graph.Input = append(d.graph.Input, value("ids", pb.Int64, 1, "new"))
	h := d.node("Gather", []string{table, "ids"}, "embedded")
	for i := range d.layers {
		name := func(s string) string { return fmt.Sprint("layer", i, ".", s) }
		x := norm(h, name("norm"))
		cached := map[string]string{}
		for _, s := range []string{"key", "value"} {
			past, present := name("past."+s), name("present."+s)
			d.graph.Input = append(d.graph.Input, value(past, dtype, 1, "past", d.width))
			cached[s] = d.node("Concat", []string{past, d.product(x, name(s), d.width, d.width)}, present, axis(1))
			d.graph.Output = append(d.graph.Output, value(present, dtype, 1, "all", d.width))
		}
		keys := d.node("Transpose", []string{cached["key"]}, name("keys"),
			&pb.AttributeProto{Name: "perm", Type: pb.AttributeInts, Ints: []int64{0, 2, 1}})
		scores := d.node("MatMul", []string{d.product(x, name("query"), d.width, d.width), keys}, name("scores"))
		weights := d.node("Softmax", []string{scores}, name("weights"), axis(-1))
		mixed := d.node("MatMul", []string{weights, cached["value"]}, name("mixed"))
		h = d.node("Add", []string{h, d.product(mixed, name("output"), d.width, d.width)}, name("attended"))
		up := d.node("Relu", []string{d.product(norm(h, name("norm2")), name("up"), d.width, 4*d.width)}, name("relu"))
		h = d.node("Add", []string{h, d.product(up, name("down"), 4*d.width, d.width)}, name("out"))
	}
	var logits string
	if h = norm(h, "norm"); d.isTied {
		transposed := d.node("Transpose", []string{table}, "transposed")
		logits = d.node("MatMul", []string{h, transposed}, "logits")
	} else {
		logits = d.product(h, "logits", d.width, d.tokens)
	}
	d.graph.Output = append(d.graph.Output, value(logits, dtype, 1, "new", d.tokens))
	model := &pb.ModelProto{IrVersion: 8, Graph: d.graph, OpsetImport: []*pb.OperatorSetIDProto{{Version: 17},
		{Domain: "com.microsoft", Version: 1}}}
	require.NoError(t, os.WriteFile(file, pb.Marshal(model), 0o600))
}

// anonymousBytes returns the anonymous memory of the process.
func anonymousBytes(t *testing.T) int {
	text, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	_, text2, ok := strings.Cut(string(text), "RssAnon:")
	require.True(t, ok)
	var kib int
	_, err = fmt.Sscan(text2, &kib)
	require.NoError(t, err)
	return kib << 10
}

// TestWeightsAreHeldOnce loads decoders with weights of several dtypes, each in a process of its own. After compilation
// and after 100 decoding steps, anonymous memory is at most 1.15 times the weights and 64 MiB. While it is loaded, it
// is at most the weights, half of them or the largest, and 48 MiB. Garbage of the steps takes at most 128 MiB: the heap
// does not double.
func TestWeightsAreHeldOnce(t *testing.T) {
	if file := os.Getenv("GRAPHRUN_TEST_DECODER"); file != "" {
		decode(t, file)
		return
	}
	if testing.Short() || jit.Available() != nil { // the race detector takes memory, and kernels in Go read float32
		t.Skip("measures the memory of programs with machine code")
	}
	for _, d := range []*decoderOf{{weights: "float32"}, {weights: "float16"}, {weights: "bfloat16"}, {weights: "int8"},
		{weights: "int4"}, {weights: "float32", isTied: true}, {weights: "float16", isTied: true},
		{weights: "bfloat16", isTied: true}} {
		name := d.weights
		d.layers, d.width, d.tokens = 4, 1024, 2048
		if d.isTied { // most weights are those of the table
			name, d.layers, d.tokens = "tied "+name, 1, 65536
			if d.weights == "float32" {
				d.tokens /= 2
			}
		}
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "decoder.onnx")
			d.write(t, file)
			command := exec.Command(os.Args[0], "-test.run=^TestWeightsAreHeldOnce$", "-test.v")
			command.Env = append(os.Environ(), "GRAPHRUN_TEST_DECODER="+file,
				fmt.Sprint("GRAPHRUN_TEST_WEIGHTS=", d.weightBytes, " ", d.largestBytes))
			out, err := command.CombinedOutput()
			t.Logf("%s", out)
			require.NoError(t, err)
		})
	}
}

// decode loads a decoder and decodes 100 tokens after a prompt of 16.
func decode(t *testing.T, file string) {
	debug.SetGCPercent(100) // as in a user's process; tests collect garbage less often
	var weights, largest int
	_, err := fmt.Sscan(os.Getenv("GRAPHRUN_TEST_WEIGHTS"), &weights, &largest)
	require.NoError(t, err)
	var peak atomic.Int64
	loaded := make(chan bool)
	go func() {
		for {
			select {
			case <-loaded:
				return
			case <-time.After(time.Millisecond):
				peak.Store(max(peak.Load(), int64(anonymousBytes(t))))
			}
		}
	}()
	const mib = 1 << 20
	check := func(when string, got int, most float64) {
		t.Logf("%s: %d MiB of anonymous memory, at most %d", when, got/mib, int(most)/mib)
		if float64(got) > most {
			t.Errorf("%s: too much", when)
		}
	}
	g, err := onnx.Load(file, onnx.Options{})
	require.NoError(t, err)
	p, err := graphrun.Compile(ctx, g, graphrun.Options{Threads: 1})
	require.NoError(t, err)
	loaded <- true
	t.Logf("weights of %d MiB", weights/mib)
	check("while it is loaded", int(peak.Load()), float64(weights+max(weights/2, largest))+48*mib)
	settled := func() int {
		debug.FreeOSMemory()
		return anonymousBytes(t)
	}
	check("after it is compiled", settled(), 1.15*float64(weights)+64*mib)
	in := map[string]*tensor.Tensor{}
	for _, v := range g.Inputs {
		if strings.Contains(v.Name, "past") {
			in[v.Name] = tensor.Zeros(v.Type.DType, 1, 0, 1024)
		}
	}
	tokens := 16
	for range 100 {
		in["ids"], tokens = tensor.Zeros(tensor.Int64, 1, tokens), 1
		out, err := p.Run(context.Background(), in)
		require.NoError(t, err)
		for name, x := range out {
			if strings.Contains(name, "present") {
				in[strings.Replace(name, "present", "past", 1)] = x
			}
		}
	}
	check("after 100 tokens, without a collection", anonymousBytes(t), 1.15*float64(weights)+192*mib)
	check("after 100 tokens", settled(), 1.15*float64(weights)+64*mib)
	runtime.KeepAlive(g)
}
