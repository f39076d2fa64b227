package convert

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/onnx/internal/modelfile"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file adds the inputs of a model to the graph. A size of an input (graph.Dim) is a number, a symbol or an
// expression over symbols. For example, an input declared as [batch, 2*seq, 3] has a symbol, an expression and a
// number. Two options of the import replace symbols by numbers. Options.Dims gives the number for a symbol in all
// inputs, such as batch = 8. Options.Shapes gives all sizes of one input.

// addModelInputs adds the inputs of the main graph to the graph and to the scope.
func (im *importer) addModelInputs(proto *pb.GraphProto, mainScope *scope, frame *frame) error {
	for _, declared := range proto.Input {
		weight := mainScope.values[declared.Name]
		if weight != nil && !im.isDefault(weight) {
			continue // the initializer replaces the input
		}
		if reason := im.opts.UnavailableInputs[declared.Name]; frame.skipsInvalidNodes && reason != nil {
			im.skipValue(mainScope, "input", declared.Name, reason)
			continue
		}
		var v *Value
		var err error
		if weight != nil {
			v, err = im.addDefaultInput(declared, weight.data)
		} else {
			v, err = im.addModelInput(declared)
		}
		if err == nil {
			mainScope.values[declared.Name], err = v, im.graph.Err()
		}
		switch {
		case err == nil:
		case frame.skipsInvalidNodes:
			im.skipValue(mainScope, "input", declared.Name, err)
		default:
			return withSubject("input", declared.Name, err)
		}
	}
	return im.checkShapeNames(proto.Input)
}

// checkShapeNames returns an error if Options.Shapes has a shape for a name that is not an input. A map is declared as
// one input, but has two inputs in the graph.
func (im *importer) checkShapeNames(declared []*pb.ValueInfoProto) error {
	isInput := map[string]bool{}
	for _, input := range declared {
		isInput[input.Name] = true
	}
	for _, v := range im.graph.Inputs {
		isInput[v.Name] = true
	}
	for _, name := range sorted.Keys(im.opts.Shapes) {
		if !isInput[name] {
			return fmt.Errorf("a shape is given for %q, but the model has no such input%s", name,
				suggest.DidYouMean(suggest.Nearest(name, maps.Keys(isInput))))
		}
	}
	return nil
}

// Declare declares the shape of an input whose rank the model does not declare. A size is a number, a symbol or an
// expression. For an input of declared rank, Declare replaces the sizes that are not numbers.
func (m *Model) Declare(name string, dims []graph.Dim) error {
	inputs := m.file.Proto.Graph.Input
	i := slices.IndexFunc(inputs, func(input *pb.ValueInfoProto) bool { return input.Name == name })
	if i < 0 || inputs[i].TensorType() == nil {
		var names []string
		for _, input := range inputs {
			names = append(names, input.Name)
		}
		return fmt.Errorf("the model has no input %q%s", name, suggest.ForUnknown(name, "inputs", slices.Values(names)))
	}
	shape := &pb.TensorShapeProto{}
	for _, dim := range dims {
		declared := &pb.Dimension{DimParam: dim.String()}
		if dim.IsNumber() {
			declared = &pb.Dimension{DimValue: new(int64(dim.Size))}
		}
		shape.Dim = append(shape.Dim, declared)
	}
	if given := inputs[i].Shape(); given != nil {
		if len(given.Dim) != len(dims) {
			return fmt.Errorf("input %q: the model declares %d dimensions, the given shape has %d", name, len(given.Dim),
				len(dims))
		}
		for k, dim := range given.Dim {
			if n := dim.DimValue; n != nil && *n >= 0 && (!dims[k].IsNumber() || int64(dims[k].Size) != *n) {
				return fmt.Errorf("input %q: the model declares the size %d of dimension %d, the given shape has %v", name, *n, k,
					dims[k])
			}
		}
	}
	inputs[i].TensorType().Shape = shape
	m.nameSymbols()
	return nil
}

// Fix makes an input a constant, all of whose elements are the value. A size that is not declared as a number is 1.
func (m *Model) Fix(name string, value tensor.Scalar) error {
	main := m.file.Proto.Graph
	i := slices.IndexFunc(main.Input, func(input *pb.ValueInfoProto) bool { return input.Name == name })
	if i < 0 || main.Input[i].TensorType() == nil {
		var names []string
		for _, input := range main.Input {
			names = append(names, input.Name)
		}
		return fmt.Errorf("the model has no input %q%s", name, suggest.ForUnknown(name, "inputs", slices.Values(names)))
	}
	declared := main.Input[i]
	dtype, err := modelfile.DTypeOf(declared.TensorType().ElemType)
	if err != nil || !value.IsSet() {
		return fmt.Errorf("input %q cannot be the constant %v: %w", name, value, cmp.Or(err, errors.New("it has no value")))
	}
	constant := &pb.TensorProto{Name: name, DataType: declared.TensorType().ElemType}
	elements := 1
	if shape := declared.Shape(); shape != nil {
		for _, dim := range shape.Dim {
			size := int64(1)
			if dim.DimValue != nil && *dim.DimValue >= 0 {
				size = *dim.DimValue
			}
			constant.Dims = append(constant.Dims, size)
			if size > maxFixed || elements*int(size) > maxFixed {
				return fmt.Errorf("input %q has too many elements for a constant", name)
			}
			elements *= int(size)
		}
	}
	constant.RawData = bytes.Repeat(value.Tensor(dtype).Storage().Bytes()[:dtype.Size()], elements)
	main.Input = slices.Delete(slices.Clone(main.Input), i, i+1)
	isReplaced := func(initializer *pb.TensorProto) bool { return initializer.Name == name }
	main.Initializer = append(slices.DeleteFunc(slices.Clone(main.Initializer), isReplaced), constant)
	m.nameSymbols()
	return nil
}

// maxFixed is the greatest number of elements of an input that [Model.Fix] makes a constant.
const maxFixed = 1 << 16

// addModelInput adds an input to the graph. The strings of a tensor are replaced by integer codes.
func (im *importer) addModelInput(declared *pb.ValueInfoProto) (*Value, error) {
	if declared.Name == "" {
		return nil, errors.New("it has no name")
	}
	if declared.Type != nil && declared.Type.MapType != nil {
		return im.addMapInput(declared, declared.Type.MapType)
	}
	tensorType := declared.TensorType()
	if tensorType == nil {
		return nil, errors.New("only tensors and maps are supported as inputs")
	}
	dtype, err := modelfile.DTypeOf(tensorType.ElemType)
	hasStrings := pb.DataType(tensorType.ElemType) == pb.String
	if hasStrings {
		dtype, err = tensor.Int64, nil
		im.label(declared.Name, graph.Labels{Texts: noTexts})
	}
	if err != nil {
		return nil, err
	}
	dims, err := im.declaredDims(declared.Name, tensorType.Shape)
	if err != nil {
		return nil, err
	}
	input, err := im.addInputOf(declared.Name, dtype, dims)
	if err == nil {
		input.hasStrings = hasStrings
	}
	return input, err
}

// addInputOf adds an input of the main graph with the given sizes.
func (im *importer) addInputOf(name string, dtype tensor.DType, dims []graph.Dim) (_ *Value, err error) {
	im.declareSymbols(dims)
	v := im.graph.InputDims(name, dtype, tensor.NoFormat, dims...)
	im.hasModelName[v] = true // setName must not rename the input
	input := &Value{name: name, graphValue: v}
	hasSymbols := v.Dims != nil && len(im.symbols.Inputs()) > 0 // Model.Signature binds no symbols
	if hasSymbols {
		if im.shapes[v], err = im.sizesOf(dims); err != nil {
			return nil, err
		}
		im.addSymbolInputs(input, dims)
	}
	return input, nil
}

// The levels of Options.constantDefaults: which initializers that are inputs are constants.
const (
	noDefaults      = iota
	integerDefaults // those of integers and bools, which many operators need before the run
	allDefaults
	defaultLevels
)

// weightsOfInputs returns the initializers of the main graph that are also inputs and may be their defaults.
func (m *Model) weightsOfInputs() (list []*pb.TensorProto) {
	isInput := map[string]bool{}
	for _, input := range m.file.Proto.Graph.Input {
		isInput[input.Name] = true
	}
	for _, weight := range m.file.Proto.Graph.Initializer {
		if isInput[weight.Name] {
			list = append(list, weight)
		}
	}
	return list
}

// isDefault reports whether an initializer that is also an input is the default of this input. An initializer whose
// elements are not of the dtype of the tensor, such as strings, is a constant.
func (im *importer) isDefault(weight *Value) bool {
	if weight.data == nil || weight.hasStrings || weight.elementType != pb.Undefined {
		return false
	}
	isInteger := weight.DType().IsIntegral(true)
	return im.opts.constantDefaults == noDefaults || im.opts.constantDefaults == integerDefaults && !isInteger
}

// addDefaultInput adds an input with a default. It has the declared shape if the default has it too, otherwise the
// shape of the default. If the options give the input another shape, the input has no default.
func (im *importer) addDefaultInput(declared *pb.ValueInfoProto, weight *tensor.Tensor) (*Value, error) {
	fixed := make([]graph.Dim, weight.Rank())
	for i, size := range weight.Shape {
		fixed[i].Size = size
	}
	dims, hasDefault := fixed, true
	if shape := declared.Shape(); shape != nil && len(shape.Dim) == len(fixed) {
		var err error
		if dims, err = im.declaredDims(declared.Name, shape); err != nil {
			return nil, err
		}
		for i, dim := range dims {
			if !dim.IsNumber() || dim.Size == fixed[i].Size {
				continue
			}
			if shape.Dim[i].DimValue != nil {
				dims, hasDefault = fixed, true
				break
			}
			hasDefault = false
		}
	}
	input, err := im.addInputOf(declared.Name, weight.DType, dims)
	if err != nil || !hasDefault {
		return input, err
	}
	input.graphValue.Default = weight.Contiguous()
	for i, dim := range dims {
		if bounds, ok := im.graph.Symbols[dim.Symbol]; ok && bounds.Hint == nil {
			bounds.Hint = &weight.Shape[i]
			im.graph.Symbols[dim.Symbol] = bounds
		}
	}
	return input, nil
}

// declareSymbols adds the symbols that occur in the sizes of an input to the graph.
func (im *importer) declareSymbols(dims []graph.Dim) {
	for _, dim := range dims {
		for _, symbol := range symbolsOf(dim) {
			if _, ok := im.graph.Symbols[symbol]; !ok {
				im.graph.Symbols[symbol] = im.model.unlimited(symbol)
			}
		}
	}
}

// sizesOf returns the sizes of an input as numbers and expressions over the symbols.
func (im *importer) sizesOf(dims []graph.Dim) ([]sym.Int, error) {
	shape := make([]sym.Int, len(dims))
	for i, dim := range dims {
		var err error
		if shape[i], err = dim.In(im.symbols.Inputs()); err != nil {
			return nil, fmt.Errorf("size %d: %w", i, err)
		}
	}
	return shape, nil
}

// addSymbolInputs sets symbolInputs to the input for each size of the input that is a symbol. A symbol that already has
// an input keeps that input.
func (im *importer) addSymbolInputs(input *Value, dims []graph.Dim) {
	for _, dim := range dims {
		if dim.Symbol != "" && im.symbolInputs[dim.Symbol] == nil {
			im.symbolInputs[dim.Symbol] = input
		}
	}
}

// declaredDims returns the sizes of an input. If the model declares a number, the size is this number. For a declared
// symbol or expression, Options.Shapes may give the number. Otherwise [Model.dim] returns the size: a number if
// Options.Dims has all symbols of the size, else a symbol or an expression.
func (im *importer) declaredDims(name string, shape *pb.TensorShapeProto) ([]graph.Dim, error) {
	given, isGiven := im.opts.Shapes[name]
	if shape == nil { // the model does not declare the rank
		if !isGiven {
			return nil, errors.New("the model does not declare its rank: give its shape (--shape NAME=1,3,H,W, or " +
				"Loader.Shapes)")
		}
		dims := make([]graph.Dim, len(given))
		for i, size := range given {
			dims[i].Size = size
		}
		return dims, nil
	}
	switch {
	case len(shape.Dim) > modelfile.MaxRank:
		return nil, fmt.Errorf("%d dimensions are not supported", len(shape.Dim))
	case isGiven && len(given) != len(shape.Dim):
		return nil, fmt.Errorf("the model declares %d dimensions, the given shape is %s", len(shape.Dim),
			tensor.ListString(given))
	}
	dims := make([]graph.Dim, len(shape.Dim))
	for i, dim := range shape.Dim {
		switch {
		case dim.DimValue != nil && *dim.DimValue >= 0: // a number
			dims[i].Size = int(*dim.DimValue)
		case isGiven:
			dims[i].Size = given[i]
		default:
			var err error
			if dims[i], err = im.model.dim(name, i, dim.DimParam, im.opts.Dims); err != nil {
				return nil, err
			}
		}
	}
	return dims, nil
}
