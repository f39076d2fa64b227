package tests

import (
	"encoding/binary"
	"fmt"
	"slices"

	ort "github.com/graphrun/graphrun/compat/onnxruntime"
)

const float = ort.TensorElementDataTypeFloat

// must panics on an error, as the examples have no place for it.
func must[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func init() { check(ort.InitializeEnvironment(ort.WithLogLevelWarning())) }

// sums is the model of the sum of four numbers, and the greatest difference of two of them.
func sums() []byte {
	return modelOf(input("x", float, 1, 4), output("sum", float, 1), output("difference", float, 1),
		node("ReduceSum", "x", "sum", attribute("keepdims", 0)), node("ReduceMax", "x", "max", attribute("keepdims", 0)),
		node("ReduceMin", "x", "min", attribute("keepdims", 0)), node("Sub", "max min", "difference"))
}

// A session for inputs of any number of rows, whose outputs are allocated by the run.
func Example_dynamicAdvancedSession() {
	model := modelOf(input("rows", ort.TensorElementDataTypeInt32, "N", 3), output("sums",
		ort.TensorElementDataTypeInt32, "N"),
		node("ReduceSum", "rows axes", "sums", attribute("keepdims", 0)),
		message{}.bytes(5, message{}.int(1, 1).int(2, ort.TensorElementDataTypeInt64).text(8, "axes").int(7, 1)))
	session := must(ort.NewDynamicAdvancedSessionWithONNXData(model, []string{"rows"}, []string{"sums"}, nil))
	defer session.Destroy()
	for n := range int64(3) {
		rows := must(ort.NewEmptyTensor[int32](ort.NewShape(n, 3)))
		for i := range rows.GetData() {
			rows.GetData()[i] = int32(i)
		}
		outputs := []ort.Value{nil}
		check(session.Run([]ort.Value{rows}, outputs))
		fmt.Println(outputs[0].GetShape(), outputs[0].(*ort.Tensor[int32]).GetData())
		outputs[0].Destroy()
		rows.Destroy()
	}
	// Output:
	// [0] []
	// [1] [3]
	// [2] [3 12]
}

// 16-bit floats are bytes.
func Example_float16() {
	const half = ort.TensorElementDataTypeFloat16
	model := modelOf(input("x", half, 2), output("y", half, 2), node("Add", "x x", "y"))
	x := must(ort.NewCustomDataTensor(ort.NewShape(2), []byte{0x00, 0x3c, 0x00, 0xc0}, half)) // 1 and -2
	session := must(ort.NewDynamicAdvancedSessionWithONNXData(model, []string{"x"}, []string{"y"}, nil))
	outputs := []ort.Value{nil}
	check(session.Run([]ort.Value{x}, outputs))
	y := outputs[0].(*ort.CustomDataTensor)
	fmt.Println(ort.TensorElementDataType(y.DataType()))
	fmt.Printf("%#x %#x\n", binary.LittleEndian.Uint16(y.GetData()),
		binary.LittleEndian.Uint16(y.GetData()[2:])) // 2 and -4
	// Output:
	// ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16
	// 0x4000 0xc400
}

// A classifier as scikit-learn exports it: a label and a map of probabilities for each row.
func Example_sequenceOfMaps() {
	model := modelOf(input("X", float, "N", 2), output("label", ort.TensorElementDataTypeInt64, "N"),
		maps("probabilities", ort.TensorElementDataTypeInt64),
		node("ai.onnx.ml:Normalizer", "X", "p", attribute("norm", "L1")),
		node("ArgMax", "p", "label", attribute("axis", 1), attribute("keepdims", 0)),
		node("ai.onnx.ml:ZipMap", "p", "probabilities", attribute("classlabels_int64s", []int64{20, 10})))
	session := must(ort.NewDynamicAdvancedSessionWithONNXData(model, []string{"X"}, []string{"label", "probabilities"},
		nil))
	defer session.Destroy()
	x := must(ort.NewTensor(ort.NewShape(2, 2), []float32{1, 3, 3, 1}))
	outputs := []ort.Value{nil, nil}
	check(session.Run([]ort.Value{x}, outputs))
	fmt.Println(outputs[0].(*ort.Tensor[int64]).GetData())
	for _, v := range must(outputs[1].(*ort.Sequence).GetValues()) {
		keys, values, err := v.(*ort.Map).GetKeysAndValues()
		check(err)
		fmt.Println(keys.(*ort.Tensor[int64]).GetData(), values.(*ort.Tensor[float32]).GetData())
	}
	// Output:
	// [1 0]
	// [10 20] [0.75 0.25]
	// [10 20] [0.25 0.75]
}

// An image classifier: the program learns names, types and shapes from the model.
func Example_classifier() {
	model := modelOf(input("image", float, "batch", 3, 4, 4), output("scores", float, "batch", 2),
		node("Conv", "image kernels", "c"), node("Relu", "c", "r"), node("GlobalAveragePool", "r", "g"),
		node("Flatten", "g", "f"), node("Softmax", "f", "scores"),
		weights("kernels", []float32{1, 0, 0, 0, 0, 1}, 2, 3, 1, 1)) // red and blue
	inputs, outputs, err := ort.GetInputOutputInfoWithONNXData(model)
	check(err)
	fmt.Println(inputs[0].String())
	fmt.Println(outputs[0].String())
	shape := inputs[0].Dimensions.Clone()
	shape[0] = 1
	image := must(ort.NewEmptyTensor[float32](shape))
	for i := range 16 {
		image.GetData()[2*16+i] = 1 // a blue image
	}
	scores := must(ort.NewEmptyTensor[float32](ort.NewShape(1, outputs[0].Dimensions[1])))
	session := must(ort.NewAdvancedSessionWithONNXData(model, []string{inputs[0].Name}, []string{outputs[0].Name},
		[]ort.Value{image}, []ort.Value{scores}, nil))
	check(session.Run())
	metadata := must(session.GetModelMetadata())
	classes, _, _ := metadata.LookupCustomMetadataMap("classes")
	best := slices.Index(scores.GetData(), slices.Max(scores.GetData()))
	fmt.Println(classes, best)
	// Output:
	// Tensor "image": [-1 3 4 4], ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT
	// Tensor "scores": [-1 2], ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT
	// cat,dog 1
}

// Boxes of a detector of the YOLO family: the output [1, 4 + classes, boxes] has a column for each box.
func Example_detector() {
	model := modelOf(input("features", float, 1, 6, 4), output("output0", float, 1, 6, 4), node("Identity", "features",
		"output0"))
	features := must(ort.NewTensor(ort.NewShape(1, 6, 4), []float32{
		10, 11, 50, 80, // centers
		10, 10, 50, 80,
		8, 8, 20, 10, // widths and heights
		8, 8, 20, 10,
		.9, .8, .1, .2, // scores of class 0
		.0, .1, .7, .3, // scores of class 1
	}))
	boxes := must(ort.NewEmptyTensor[float32](ort.NewShape(1, 6, 4)))
	session := must(ort.NewAdvancedSessionWithONNXData(model, []string{"features"}, []string{"output0"},
		[]ort.Value{features}, []ort.Value{boxes}, nil))
	defer session.Destroy()
	check(session.Run())

	data, n := boxes.GetData(), int(boxes.GetShape()[2])
	type box struct {
		left, top, right, bottom, score float32
		class                           int
	}
	var kept []box
	for i := range n {
		x, y, w, h := data[i], data[n+i], data[2*n+i], data[3*n+i]
		b := box{left: x - w/2, top: y - h/2, right: x + w/2, bottom: y + h/2}
		for class := range 2 {
			if score := data[(4+class)*n+i]; score > b.score {
				b.score, b.class = score, class
			}
		}
		overlaps := slices.ContainsFunc(kept, func(o box) bool {
			return min(b.right, o.right)-max(b.left, o.left) > 4 && min(b.bottom, o.bottom)-max(b.top, o.top) > 4
		})
		if b.score > 0.5 && !overlaps {
			kept = append(kept, b)
		}
	}
	fmt.Println(kept)
	// Output: [{6 6 14 14 0.9 0} {40 40 60 60 0.7 1}]
}
