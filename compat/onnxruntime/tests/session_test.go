package tests

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	ort "github.com/graphrun/graphrun/compat/onnxruntime"
)

func equal(t *testing.T, want, got any) {
	t.Helper()
	if !reflect.DeepEqual(want, got) {
		t.Errorf("want %v, got %v", want, got)
	}
}

// fails checks that an error contains all parts.
func fails(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("want an error with %q", parts)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("want an error with %q, got %v", part, err)
		}
	}
}

// vector returns a tensor with one dimension.
func vector[T ort.TensorData](elements ...T) *ort.Tensor[T] {
	return must(ort.NewTensor(ort.NewShape(int64(len(elements))), elements))
}

func dynamic(model []byte, inputs, outputs string) *ort.DynamicAdvancedSession {
	return must(ort.NewDynamicAdvancedSessionWithONNXData(model, strings.Fields(inputs), strings.Fields(outputs), nil))
}

// adder is the model z = x + y of vectors, w = z.
func adder() []byte {
	return modelOf(input("x", float, "N"), input("y", float, "N"), output("z", float, "N"), output("w", float, "N"),
		node("Add", "x y", "z"), node("Identity", "z", "w"))
}

func TestErrorsOfRuns(t *testing.T) {
	s := dynamic(adder(), "x y", "z")
	x, y, z := vector[float32](1, 2), vector[float32](3, 4), vector[float32](0, 0)
	run := func(a, b, c ort.Value) error { return s.Run([]ort.Value{a, b}, []ort.Value{c}) }
	fails(t, run(x, vector(1.0, 2.0), z), `input "y" is float64`, "float32")
	fails(t, run(x, y, vector[int32](0, 0)), `"z"`, "int32", "float32")
	fails(t, run(x, vector[float32](1, 2, 3), z), `N is 2 in input "x", but 3 in input "y"`)
	fails(t, run(x, y, vector[float32](1)), `"z"`, "[1]", "[2]")
	fails(t, run(x, nil, z), `input "y" is nil`)
	fails(t, run(x, must(ort.NewStringTensor(ort.NewShape(2))), z), `input "y"`, "STRING", "FLOAT")
	fails(t, run(x, must(ort.NewSequence([]ort.Value{y})), z), `input "y" is a sequence`)
	fails(t, run(x, must(ort.NewMapFromGoMap(map[int64]float32{1: 2})), z), `input "y"`, "MAP")
	fails(t, run(x, y, must(ort.NewTensor(y.GetShape(), y.GetData()))), `"z"`, "memory", `"y"`)
	fails(t, s.Run([]ort.Value{x}, []ort.Value{z}), "2 input names", "1 inputs")
	fails(t, s.Run([]ort.Value{x, y}, nil), "1 output names", "0 outputs")
	check(run(x, y, z))
	equal(t, []float32{4, 6}, z.GetData())
	inputs, outputs := []ort.Value{x, y}, []ort.Value{z}
	if n := testing.AllocsPerRun(40, func() { check(s.Run(inputs, outputs)) }); n > 3 { // the race detector adds some
		t.Errorf("%v allocations in a run", n)
	}

	y.Destroy()
	fails(t, run(x, y, z), `input "y" was destroyed`)
	fails(t, run(x, x, y), `output "z" was destroyed`)
	_, err := y.Clone()
	fails(t, err, "destroyed")
	check(s.Destroy())
	fails(t, run(x, x, z), "the session was destroyed")
	_, err = s.GetModelMetadata()
	fails(t, err, "the session was destroyed")

	create := func(inputs, outputs []string) error {
		_, err := ort.NewDynamicAdvancedSessionWithONNXData(adder(), inputs, outputs, nil)
		return err
	}
	fails(t, create([]string{"x", "q"}, nil), `no input "q"`, "x, y")
	fails(t, create(nil, []string{"q"}), `no output "q"`, "z, w")
	fails(t, create(nil, []string{"z", "z"}), `output "z" is given twice`)
	_, err = ort.NewAdvancedSession(filepath.Join(t.TempDir(), "absent.onnx"), []string{"x"}, []string{"z"},
		[]ort.Value{x}, []ort.Value{z}, nil)
	fails(t, err, "absent.onnx")
	if !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	_, err = ort.NewDynamicAdvancedSessionWithONNXData(nil, nil, nil, nil)
	fails(t, err, "no ONNX data")
	_, err = ort.NewAdvancedSessionWithONNXData(adder(), []string{"x", "y"}, []string{"z"}, []ort.Value{x, x},
		[]ort.Value{nil}, nil)
	fails(t, err, `output "z" is nil`)
	missing := dynamic(adder(), "x", "z")
	fails(t, missing.Run([]ort.Value{x}, []ort.Value{nil}), "y", "missing")
}

// The example of the package reads a file, as a replaced package must not import itself.
func TestModelOfExample(t *testing.T) {
	const path = "../testdata/sums.onnx"
	if os.Getenv("UPDATE") != "" {
		check(os.WriteFile(path, sums(), 0o666))
	}
	equal(t, sums(), must(os.ReadFile(path)))
}

// A shape that the model does not have is the error of a run, as in the original.
func TestWrongShapeOfAdvancedSession(t *testing.T) {
	x, out := must(ort.NewEmptyTensor[float32](ort.NewShape(2, 4))), must(ort.NewScalar[float32](0))
	s := must(ort.NewAdvancedSessionWithONNXData(sums(), []string{"x"}, []string{"sum"}, []ort.Value{x},
		[]ort.Value{out}, nil))
	fails(t, s.Run(), `"x"`, "[2, 4]", "[1, 4]")
}

func TestNotInitialized(t *testing.T) {
	check(ort.DestroyEnvironment())
	defer func() { check(ort.InitializeEnvironment()) }()
	_, err := ort.NewEmptyTensor[float32](ort.NewShape(1))
	for _, err := range []error{err, ort.DestroyEnvironment(), ort.EnableTelemetry(),
		ort.SetEnvironmentLogLevel(ort.LoggingLevelInfo)} {
		if !errors.Is(err, ort.NotInitializedError) {
			t.Error(err)
		}
	}
	_, err = ort.GetModelMetadataWithONNXData(adder())
	equal(t, ort.NotInitializedError, err)
	_, err = ort.NewDynamicAdvancedSessionWithONNXData(adder(), nil, nil, nil)
	fails(t, err, ort.NotInitializedError.Error())
	equal(t, false, ort.IsInitialized())
	check(ort.InitializeEnvironment())
	fails(t, ort.InitializeEnvironment(), "already")
	check(ort.DestroyEnvironment())
}

// Outputs that a run allocates share no memory with inputs and with each other.
func TestAllocatedOutputs(t *testing.T) {
	model := modelOf(input("x", float, 2, 2), output("same", float, 2, 2), output("turned", float, 2, 2), output("row",
		float, 2),
		node("Identity", "x", "same"), node("Transpose", "x", "turned"), node("Relu", "x", "r"),
		node("Split", "r", "r1 r2", attribute("num_outputs", 2)), node("Flatten", "r1", "f", attribute("axis",
			0)), node("Squeeze", "f", "row"))
	s := dynamic(model, "x", "same turned row")
	x, given := must(ort.NewTensor(ort.NewShape(2, 2), []float32{1, 2, 3,
		4})), must(ort.NewEmptyTensor[float32](ort.NewShape(2, 2)))
	outputs := []ort.Value{nil, given, nil}
	check(s.Run([]ort.Value{x}, outputs))
	data := func(i int) []float32 { return outputs[i].(*ort.Tensor[float32]).GetData() }
	x.ZeroContents()
	equal(t, []float32{1, 2, 3, 4}, data(0))
	equal(t, []float32{1, 3, 2, 4}, data(1))
	equal(t, []float32{1, 2}, data(2))
	kept := data(0)
	check(outputs[0].Destroy())
	equal(t, []float32{1, 2, 3, 4}, kept) // the slice stays valid
	equal(t, true, outputs[1] == ort.Value(given))
}

func TestGoroutines(t *testing.T) {
	s := dynamic(adder(), "x y", "z w")
	var group sync.WaitGroup
	for n := range 20 {
		group.Go(func() {
			x := vector(slices.Repeat([]float32{float32(n)}, n%7+1)...)
			outputs := []ort.Value{nil, nil}
			if err := s.Run([]ort.Value{x, x}, outputs); err != nil {
				t.Error(err)
				return
			}
			for _, v := range outputs {
				equal(t, slices.Repeat([]float32{float32(2 * n)}, n%7+1), v.(*ort.Tensor[float32]).GetData())
			}
		})
	}
	group.Wait()
}

func TestStrings(t *testing.T) {
	const integer, text = ort.TensorElementDataTypeInt64, ort.TensorElementDataTypeString
	names, numbers := []string{"cat", "dog"}, []int64{3, 5}
	model := modelOf(input("name", text, "N"), output("number", integer, "N"), output("back", text, "N"),
		node("ai.onnx.ml:LabelEncoder", "name", "number", attribute("keys_strings", names), attribute("values_int64s",
			numbers),
			attribute("default_int64", -7)),
		node("ai.onnx.ml:LabelEncoder", "number", "back", attribute("keys_int64s", numbers), attribute("values_strings",
			names),
			attribute("default_string", "?")),
		output("same", text, "N"), node("Identity", "name", "same"))
	inputs, outputs, err := ort.GetInputOutputInfoWithONNXData(model)
	check(err)
	equal(t, ort.TensorElementDataType(text), inputs[0].DataType)
	equal(t, ort.TensorElementDataType(text), outputs[1].DataType)
	s := dynamic(model, "name", "number back")
	name, back := must(ort.NewStringTensor(ort.NewShape(3))), must(ort.NewStringTensor(ort.NewShape(3)))
	check(name.SetContents([]string{"dog", "cow", ""}))
	check(name.SetElement(2, "cat"))
	values := []ort.Value{nil, back}
	check(s.Run([]ort.Value{name}, values))
	equal(t, []int64{5, -7, 3}, values[0].(*ort.Tensor[int64]).GetData())
	equal(t, []string{"dog", "?", "cat"}, must(back.GetContents()))
	same := []ort.Value{nil}
	check(dynamic(model, "name", "same").Run([]ort.Value{name}, same))
	equal(t, []string{"dog", "cow", "cat"}, must(same[0].(*ort.StringTensor).GetContents()))
	values[1] = nil
	check(s.Run([]ort.Value{name}, values))
	equal(t, "?", must(values[1].(*ort.StringTensor).GetElement(1)))
	values[1] = must(ort.NewStringTensor(ort.NewShape(2)))
	fails(t, s.Run([]ort.Value{name}, values), `output "back"`, "[3]", "[2]")
	_, err = back.GetElement(3)
	fails(t, err, "index 3")
	fails(t, back.SetElement(-1, ""), "index -1")
	fails(t, back.SetContents(nil), "0 strings", "3")
}

func TestMaps(t *testing.T) {
	model := modelOf(message{}.bytes(11, message{}.text(1, "m").bytes(2, message{}.bytes(5, // a map from strings to floats
		message{}.int(1, ort.TensorElementDataTypeString).bytes(2, message{}.bytes(1, message{}.int(1, float)))))),
		output("y", float, 1, 3), maps("z", ort.TensorElementDataTypeString),
		node("ai.onnx.ml:DictVectorizer", "m", "y", attribute("string_vocabulary", []string{"c", "a", "b"})),
		node("ai.onnx.ml:ZipMap", "y", "z", attribute("classlabels_strings", []string{"c", "a", "b"})))
	inputs, _, err := ort.GetInputOutputInfoWithONNXData(model)
	check(err)
	equal(t, []ort.InputOutputInfo{{Name: "m", OrtValueType: ort.ONNXTypeMap}}, inputs)
	keys := must(ort.NewStringTensor(ort.NewShape(2)))
	check(keys.SetContents([]string{"b", "c"}))
	m := must(ort.NewMap(keys, vector[float32](1, 2)))
	equal(t, ort.NewShape(2), m.GetShape())
	outputs := []ort.Value{nil, nil}
	s := dynamic(model, "m", "y z")
	check(s.Run([]ort.Value{m}, outputs))
	equal(t, []float32{2, 0, 1}, outputs[0].(*ort.Tensor[float32]).GetData())
	list := must(outputs[1].(*ort.Sequence).GetValues())
	k, v, _ := list[0].(*ort.Map).GetKeysAndValues()
	equal(t, []string{"a", "b", "c"}, must(k.(*ort.StringTensor).GetContents()))
	equal(t, []float32{0, 1, 2}, v.(*ort.Tensor[float32]).GetData())
	fails(t, s.Run([]ort.Value{m}, outputs), `output "z" is a sequence`)
	fails(t, s.Run([]ort.Value{keys}, []ort.Value{nil, nil}), `input "m"`, "a map")
	numbers := must(ort.NewMapFromGoMap(map[int64]float32{1: 2}))
	fails(t, s.Run([]ort.Value{numbers}, []ort.Value{nil, nil}), `input "m.keys" is`, "INT64", "STRING")

	_, err = ort.NewMap(vector[float32](1), vector[float32](1))
	fails(t, err, "keys", "FLOAT")
	_, err = ort.NewMap(vector[int64](1, 2), vector[float32](1))
	fails(t, err, "[2]", "[1]")
	_, err = ort.NewSequence(nil)
	fails(t, err, "at least one")
	_, err = ort.NewSequence([]ort.Value{keys, m})
	fails(t, err, "different types")
	sequence := must(ort.NewSequence([]ort.Value{m, m}))
	_, err = ort.NewSequence([]ort.Value{sequence})
	fails(t, err, "sequence")
	check(m.Destroy())
	equal(t, ort.NewShape(2), must(sequence.GetValues())[0].GetShape()) // a sequence keeps its elements
}

func TestMetadata(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model")
	check(os.WriteFile(path, adder(), 0o666))
	s := dynamic(adder(), "x y", "z")
	for _, m := range []*ort.ModelMetadata{must(ort.GetModelMetadata(path)), must(s.GetModelMetadata())} {
		name, _ := m.GetProducerName()
		graph, _ := m.GetGraphName()
		domain, _ := m.GetDomain()
		description, _ := m.GetDescription()
		equal(t, []string{"tests", "network", "org.example", "A model of the tests."}, []string{name, graph, domain,
			description})
		equal(t, int64(7), must(m.GetVersion()))
		equal(t, []string{"classes", "empty"}, must(m.GetCustomMetadataMapKeys()))
		_, ok, _ := m.LookupCustomMetadataMap("empty")
		_, absent, _ := m.LookupCustomMetadataMap("absent")
		equal(t, []bool{true, false}, []bool{ok, absent})
		check(m.Destroy())
	}
	for n := range adder() {
		if m, err := ort.GetModelMetadataWithONNXData(adder()[:n]); err == nil {
			_ = must(m.GetVersion()) // the cut is between two fields
		}
	}
	for _, broken := range []string{"\xff", "\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\x0b\x00", "\x12\x05a",
		"text"} {
		_, err := ort.GetModelMetadataWithONNXData([]byte(broken))
		fails(t, err, "model.onnx: not an ONNX model")
	}
	check(os.WriteFile(path, adder()[:len(adder())-1], 0o666))
	_, err := ort.GetModelMetadata(path)
	fails(t, err, path+": not an ONNX model")
}

func TestOptions(t *testing.T) {
	o := must(ort.NewSessionOptions())
	for _, err := range []error{o.SetIntraOpNumThreads(1), o.SetInterOpNumThreads(2), o.SetCpuMemArena(false),
		o.SetMemPattern(false),
		o.SetExecutionMode(ort.ExecutionModeParallel), o.SetLogSeverityLevel(ort.LoggingLevelFatal), o.DisableProfiling(),
		o.SetGraphOptimizationLevel(ort.GraphOptimizationLevelEnableAll), o.AddSessionConfigEntry("a", "b"),
		o.AppendExecutionProvider("CPUExecutionProvider", nil)} {
		check(err)
	}
	equal(t, "b", must(o.GetSessionConfigEntry("a")))
	equal(t, false, must(o.HasSessionConfigEntry("c")))
	_, err := o.GetSessionConfigEntry("c")
	fails(t, err, `"c" is not set`)
	fails(t, o.SetIntraOpNumThreads(-1), "-1")
	fails(t, o.SetGraphOptimizationLevel(5), "5")
	_, errCUDA := ort.NewCUDAProviderOptions()
	_, errTensorRT := ort.NewTensorRTProviderOptions()
	for provider, err := range map[string]error{"CUDA": errCUDA, "TensorRT": errTensorRT,
		"CoreML":   o.AppendExecutionProviderCoreMLV2(nil),
		"DirectML": o.AppendExecutionProviderDirectML(0), "QNN": o.AppendExecutionProvider("QNN", nil)} {
		fails(t, err, provider, "remove the call")
	}
	fails(t, o.EnableProfiling("p"), "graphrun bench")
	fails(t, o.SetOptimizedModelFilePath("p"), "remove this call")
	x, z := vector[float32](1), vector[float32](0)
	s := must(ort.NewAdvancedSessionWithONNXData(adder(), []string{"x", "y"}, []string{"w"}, []ort.Value{x, x},
		[]ort.Value{z}, o))
	check(o.Destroy())
	fails(t, o.Destroy(), "not initialized")
	fails(t, o.AddSessionConfigEntry("a", "b"), "not initialized")
	_, err = ort.NewDynamicAdvancedSessionWithONNXData(adder(), nil, nil, o)
	fails(t, err, "not initialized")
	check(s.Run())
	equal(t, float32(2), z.GetData()[0])

	run := must(ort.NewRunOptions())
	check(run.UnsetTerminate())
	check(run.Terminate())
	fails(t, s.RunWithOptions(run), "terminated")
	check(run.UnsetTerminate())
	check(s.RunWithOptions(run))
	check(run.Destroy())
	fails(t, run.Terminate(), "not initialized")
	fails(t, s.RunWithOptions(run), "not initialized")
}

func TestIoBinding(t *testing.T) {
	s := dynamic(adder(), "", "")
	b := must(s.CreateIoBinding())
	fails(t, s.RunWithBinding(b), "no outputs")
	x, y, z, w := vector[float32](1), vector[float32](2), vector[float32](0), vector[float32](0)
	fails(t, b.BindInput("q", x), `no input "q"`)
	fails(t, b.BindOutput("x", x), `no output "x"`)
	for _, err := range []error{b.BindInput("x", x), b.BindInput("y", x), b.BindInput("y", y), b.BindOutput("w", w),
		b.BindOutput("z", z)} {
		check(err)
	}
	check(s.RunWithBinding(b))
	equal(t, []string{"w", "z"}, must(b.GetBoundOutputNames()))
	copies := must(b.GetBoundOutputValues())
	w.ZeroContents()
	equal(t, []float32{3}, copies[0].(*ort.Tensor[float32]).GetData())
	b.ClearBoundOutputs()
	fails(t, s.RunWithBinding(b), "no outputs")
	check(b.Destroy())
	fails(t, s.RunWithBinding(b), "destroyed")
}

type celsius float32

func TestTensors(t *testing.T) {
	x := must(ort.NewTensor(ort.NewShape(2, 2), []celsius{1, 2, 3, 4, 5}))
	equal(t, 4, len(x.GetData()))
	equal(t, ort.TensorElementDataType(ort.TensorElementDataTypeFloat), ort.TensorElementDataType(x.DataType()))
	c := must(x.Clone())
	x.ZeroContents()
	equal(t, []celsius{1, 2, 3, 4}, c.GetData())
	shape := c.GetShape()
	shape[0] = 7
	equal(t, true, c.GetShape().Equals(ort.NewShape(2, 2)))
	for _, failing := range []struct {
		shape ort.Shape
		text  string
	}{{nil, "no dimensions"}, {ort.NewShape(2, -3), "-3"}, {ort.NewShape(1<<62, 0, -1), "-1"}, {ort.NewShape(1<<62, 4),
		"overflows"},
		{ort.NewShape(3<<40, 3<<40), "overflows"}, {ort.NewShape(1 << 50), "large"}} {
		_, err := ort.NewEmptyTensor[float32](failing.shape)
		fails(t, err, failing.text)
	}
	equal(t, int64(0), must(ort.NewEmptyTensor[bool](ort.NewShape(3, 0, 2))).GetShape().FlattenedSize())
	_, err := ort.NewTensor(ort.NewShape(2), []int8{1})
	fails(t, err, "[2] requires 2", "only 1")
	_, err = ort.NewCustomDataTensor(ort.NewShape(2), []byte{1, 2, 3}, ort.TensorElementDataTypeBFloat16)
	fails(t, err, "[2] requires 2 elements of 2 bytes", "only 3")
	_, err = ort.NewCustomDataTensor(ort.NewShape(2), []byte{1, 2}, ort.TensorElementDataTypeFloat8E5M2)
	fails(t, err, "FLOAT8E5M2")
	s := must(ort.NewEmptyScalar[int64]())
	s.Set(5)
	equal(t, int64(5), s.GetData())
	equal(t, ort.Shape(nil), s.GetShape())
	check(s.Destroy())
	s.Set(6)
	names := fmt.Sprint(ort.TensorElementDataType(ort.TensorElementDataTypeInt4), ort.TensorElementDataType(-1),
		ort.ONNXType(ort.ONNXTypeMap),
		ort.LoggingLevel(2), ort.GraphOptimizationLevel(99), ort.ExecutionMode(1), ort.ExecutionMode(2))
	equal(t,
		"ONNX_TENSOR_ELEMENT_DATA_TYPE_INT4 Unknown tensor element data type: -1 ONNX_TYPE_MAP ORT_LOGGING_LEVEL_WARNING "+
			"ORT_ENABLE_ALL ORT_PARALLEL Invalid/unknown execution mode: 2", names)
}

// Every type of elements passes through a model unchanged.
func TestElementTypes(t *testing.T) {
	for elements := range ort.TensorElementDataType(ort.TensorElementDataTypeFloat8E4M3FN) {
		size := map[ort.TensorElementDataType]int{1: 4, 2: 1, 3: 1, 4: 2, 5: 2, 6: 4, 7: 8, 9: 1, 10: 2, 11: 8, 12: 4,
			13: 8, 14: 8, 15: 16, 16: 2}[elements]
		if size == 0 {
			continue
		}
		s := dynamic(modelOf(input("x", elements, 3), output("y", elements, 2), node("Compress", "x c", "y",
			attribute("axis", 0)),
			message{}.bytes(5, message{}.int(1, 3).int(2, ort.TensorElementDataTypeBool).text(8, "c").text(9,
				"\x00\x01\x01"))), "x", "y")
		data := make([]byte, 3*size+1)[1:] // not aligned
		for i := range data {
			data[i] = byte(i % 2)
		}
		x, y := must(ort.NewCustomDataTensor(ort.NewShape(3), data, elements)), []ort.Value{nil}
		if err := s.Run([]ort.Value{x}, y); err != nil {
			t.Error(elements, err)
			continue
		}
		equal(t, elements, y[0].DataType())
		equal(t, ort.NewShape(2), y[0].GetShape())
		given := must(ort.NewCustomDataTensor(ort.NewShape(2), make([]byte, 2*size+1)[1:], elements))
		check(s.Run([]ort.Value{x}, []ort.Value{given}))
		equal(t, data[size:], given.GetData())
		if c, ok := y[0].(*ort.CustomDataTensor); ok {
			equal(t, data[size:], c.GetData())
		}
	}
}

// Scalars, tensors without elements, and an input with a default, which is no input of the model for callers.
func TestScalarsAndDefaults(t *testing.T) {
	model := modelOf(input("x", float, "N"), input("scale", float), weights("scale", []float32{3}), output("y", float,
		"N"), output("sum", float),
		node("Mul", "x scale", "y"), node("ReduceSum", "y", "sum", attribute("keepdims", 0)))
	inputs, outputs, err := ort.GetInputOutputInfoWithONNXData(model)
	check(err)
	equal(t, 1, len(inputs))
	equal(t, ort.Shape{}, outputs[1].Dimensions)
	values := []ort.Value{nil, nil}
	check(dynamic(model, "x", "y sum").Run([]ort.Value{vector[float32](1, 2)}, values))
	equal(t, []float32{9}, values[1].(*ort.Tensor[float32]).GetData())
	values = []ort.Value{nil, nil}
	check(dynamic(model, "x scale", "y sum").Run([]ort.Value{vector[float32](), must(ort.NewScalar[float32](2))}, values))
	equal(t, ort.NewShape(0), values[0].GetShape())
	equal(t, []float32{0}, values[1].(*ort.Tensor[float32]).GetData())
}

func TestLegacySessions(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "z.onnx")
	check(os.WriteFile(path, adder(), 0o666))
	names := []string{"x", "y"}
	x, z := vector[float32](2, float32(math.Inf(1))), vector[float32](0, 0)
	inputs := []*ort.Tensor[float32]{x, x}
	s := must(ort.NewSession(path, names, []string{"z"}, inputs, []*ort.Tensor[float32]{z}))
	check(s.Run())
	equal(t, []float32{4, float32(math.Inf(1))}, z.GetData())
	check(s.Destroy())
	fails(t, s.Run(), "destroyed")
	d := must(ort.NewDynamicSession[float32, float32](path, names, []string{"z"}))
	outputs := []*ort.Tensor[float32]{nil}
	check(d.Run(inputs, outputs))
	equal(t, z.GetData(), outputs[0].GetData())
	wrong := must(ort.NewDynamicSession[float32, int8](path, names, []string{"z"}))
	fails(t, wrong.Run(inputs, []*ort.Tensor[int8]{nil}), "FLOAT", "INT8")
	_, err := ort.NewTrainingSession("", "", "", "", nil, nil, nil)
	equal(t, ort.TrainingAPIRemovedError, err)
	equal(t, false, ort.IsTrainingSupported())
}

func TestModelsThatAreRejected(t *testing.T) {
	anyRank := message{}.bytes(11, message{}.text(1, "x").bytes(2, message{}.bytes(1, message{}.int(1, float))))
	model := modelOf(anyRank, output("y", float, "N"), node("Relu", "x", "y"))
	x, y := vector[float32](-1, 1), vector[float32](0, 0)
	check(must(ort.NewAdvancedSessionWithONNXData(model, []string{"x"}, []string{"y"}, []ort.Value{x}, []ort.Value{y},
		nil)).Run())
	equal(t, []float32{0, 1}, y.GetData())
	create := func(model []byte) error {
		_, err := ort.NewDynamicAdvancedSessionWithONNXData(model, nil, nil, nil)
		return err
	}
	fails(t, create(model), `"x"`, "rank")
	sequence := message{}.bytes(4, message{}.bytes(1, message{}.bytes(1, message{}.int(1, float))))
	fails(t, create(modelOf(input("x", float, 2), message{}.bytes(12, message{}.text(1, "y").bytes(2, sequence)),
		node("SequenceConstruct", "x", "y"))), `"y"`, "sequence")
	fails(t, create(modelOf(input("x", ort.TensorElementDataTypeFloat8E5M2, 2), output("y", float, 2),
		node("Cast", "x", "y", attribute("to", 1)))), "x")
	fails(t, create(modelOf(input("x", float, 2), output("y", float, 2), node("org.example:Blur", "x", "y"))), "Blur")
	fails(t, create([]byte("ORTM")), "ONNX")
}
