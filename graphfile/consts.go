package graphfile

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"weak"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/tensor"
)

// This file reads the sections "inputs" and "constants" of a graph file. Their members are declarations such as
//
//	{"name": "x", "dtype": "float32", "shape": ["n", 3, "n//2 + 1"], "memory_format": "contiguous"}
//	{"name": "b", "dtype": "float32", "shape": [3], "data": [1, 2, 0.5]}
//	{"name": "w", "dtype": "float32", "shape": [3, 4], "file": "weights.npz", "key": "w"}
//
// readDeclaration reads the members of the object, and readInput and readConstant add the value to the draft.
//
// A mistake in a declaration is added to l.errs, and the reading continues. In this case a stand-in replaces the value,
// and for ParseSome the mistake is moved to l.skipped (see addStandIn). An error that a read function returns ends the
// reading.

// readInput reads the declaration of an input and adds the input to the graph. offset is the declaration's offset in
// the file.
func (l *loader) readInput(offset int) error {
	firstErrIndex := len(l.errs)
	decl, ok, err := l.readDeclaration(offset, inputDecl)
	if !ok { // after a mistake, err is nil
		l.addStandIn(decl.name, inputDecl, firstErrIndex, err)
		return err
	}
	var isText bool
	if decl.parsed.DType, isText, err = parseDType(decl.dtype); err != nil {
		l.failAt(decl.dtypeOffset, "%w", err)
	}
	for _, dim := range decl.parsed.Dims {
		if dim.Symbol != "" {
			l.addSymbol(dim.Symbol)
		}
	}
	if len(l.errs) == firstErrIndex {
		v, err := l.draft.Input(decl.name, decl.parsed)
		if err == nil {
			l.places.setValue(v, offset)
			if isText {
				l.label(decl.name)
			}
			return nil
		}
		l.failAt(offset, "%w", err)
	}
	l.prefixErrors(firstErrIndex, inputDecl, decl.name)
	l.addStandIn(decl.name, inputDecl, firstErrIndex, nil)
	return nil
}

// readConstant reads the declaration of a constant and adds the constant, with its data, to the graph. offset is the
// declaration's offset in the file.
func (l *loader) readConstant(offset int) error {
	interrupt.Check(l.ctx) // a panic ends the reading if the context has ended
	firstErrIndex := len(l.errs)
	decl, ok, err := l.readDeclaration(offset, constantDecl)
	if !ok { // after a mistake, err is nil
		l.addStandIn(decl.name, constantDecl, firstErrIndex, err)
		return err
	}
	t, mistakeOffset, err := l.constData(decl)
	if err != nil {
		l.failAt(mistakeOffset, "%w", err)
		l.prefixErrors(firstErrIndex, constantDecl, decl.name)
		l.addStandIn(decl.name, constantDecl, firstErrIndex, nil)
		return nil
	}
	if decl.file != "" { // Save then writes a reference to the file
		l.source.files[weak.Make(t)] = constRef{decl.file, decl.key}
	}
	v, err := l.draft.Constant(decl.name, decl.parsed.Layout, t)
	if err != nil {
		return err
	}
	l.places.setValue(v, offset)
	return nil
}

// addStandIn declares a stand-in with the name of a rejected input or constant. Thus nodes that read the value are not
// rejected for an unknown name. For ParseSome, addStandIn also moves the mistakes of the value, l.errs[firstErrIndex:],
// to l.skipped, unless syntaxErr ends the reading. It does nothing if the name is empty, or if another value has the
// name.
func (l *loader) addStandIn(name string, kind declKind, firstErrIndex int, syntaxErr error) {
	var v *graph.Value
	if kind == constantDecl {
		v, _ = l.draft.Constant(name, graph.Pin{}, tensor.Zeros(tensor.Float32))
	} else {
		v, _ = l.draft.Input(name, graph.Decl{DType: tensor.Float32})
	}
	if v == nil || !l.skipsMistakes() || syntaxErr != nil || len(l.errs) == firstErrIndex {
		return
	}
	l.unavailable[v] = true
	l.skipped, l.errs = append(l.skipped, l.errs[firstErrIndex:]...), l.errs[:firstErrIndex]
}

// valueDecl is the declaration of an input or a constant in JSON. The data of a constant are the array `key` of `file`.
type valueDecl struct {
	name, dtype, file, key          string
	hasDType, hasShape              bool
	parsed                          graph.Decl // dtype, shape and layout; the dtype is set after the object is read
	data                            []byte     // the JSON of "data"
	offset, dtypeOffset, dataOffset int        // offsets of the declaration, the dtype and the data in the file
}

// declKind is the kind of value that a valueDecl declares, as a noun for messages.
type declKind string

const (
	inputDecl    declKind = "input"
	constantDecl declKind = "constant"
)

// readDeclaration reads the object of an input or a constant. ok is false after a mistake, which is added to l.errs, or
// after a syntax error, which is returned as err.
func (l *loader) readDeclaration(offset int, kind declKind) (decl *valueDecl, ok bool, err error) {
	decl = &valueDecl{offset: offset}
	firstErrIndex := len(l.errs)
	err = l.scan.object(func(key string, keyOffset int) error {
		return l.readDeclarationKey(decl, key, keyOffset, kind)
	})
	if len(l.errs) == firstErrIndex && err == nil {
		switch {
		case decl.name == "":
			l.failAt(offset, "\"name\" is missing")
		case l.graph.Value(decl.name) != nil:
			l.failAt(offset, "two values are named %q", decl.name)
		case !decl.hasDType:
			l.failAt(offset, "\"dtype\" is missing")
		case !decl.hasShape:
			l.failAt(offset, "\"shape\" is missing")
		case decl.parsed.Strides != nil && decl.parsed.Layout.SetsLayout():
			key := "memory_format"
			if decl.parsed.Layout.Order != "" {
				key = "order"
			}
			l.failAt(offset, "\"strides\" and %q cannot both be given", key)
		default:
			l.checkLayout(decl.parsed.Layout, offset)
		}
	}
	l.prefixErrors(firstErrIndex, kind, decl.name)
	return decl, len(l.errs) == firstErrIndex && err == nil, err
}

// readDeclarationKey reads the value of one key of a declaration.
func (l *loader) readDeclarationKey(decl *valueDecl, key string, offset int, kind declKind) error {
	isConstant := kind == constantDecl
	switch {
	case key == "name":
		return l.scan.stringTo(&decl.name)
	case key == "dtype":
		decl.hasDType, decl.dtypeOffset = true, l.scan.offset()
		return l.scan.stringTo(&decl.dtype)
	case key == "shape":
		decl.hasShape = true
		return l.scan.array(func(offset int) error {
			dim, err := l.readDim(decl, "shape", offset, kind)
			if dim.Size < 0 {
				l.failAt(offset, "negative size %d", dim.Size)
			}
			decl.parsed.Dims = append(decl.parsed.Dims, dim)
			return err
		})
	case key == "strides":
		decl.parsed.Strides = []graph.Dim{}
		return l.scan.array(func(offset int) error {
			dim, err := l.readDim(decl, "strides", offset, kind)
			decl.parsed.Strides = append(decl.parsed.Strides, dim)
			return err
		})
	case key == "offset":
		dim, err := l.readDim(decl, "offset", l.scan.offset(), kind)
		decl.parsed.Offset = dim
		return err
	case key == "memory_format":
		return l.scan.formatTo(&decl.parsed.Layout.Format)
	case key == "order":
		return l.scan.orderTo(&decl.parsed.Layout.Order)
	case key == "data" && isConstant:
		decl.dataOffset = l.scan.offset()
		raw, err := l.scan.raw()
		decl.data = raw
		return err
	case key == "file" && isConstant:
		return l.scan.stringTo(&decl.file)
	case key == "key" && isConstant:
		return l.scan.stringTo(&decl.key)
	case isConstant:
		return l.unknownKey(key, offset, constantKeys)
	}
	return l.unknownKey(key, offset, inputKeys)
}

// The permitted keys, for messages.
const (
	inputKeys    = "name, dtype, shape, strides, offset, memory_format, order"
	constantKeys = "name, dtype, shape, data, file, key, strides, offset, memory_format, order"
)

// readDim reads a size, a stride or an offset. key is the key of the list or of the number: shape, strides or offset.
func (l *loader) readDim(decl *valueDecl, key string, offset int, kind declKind) (graph.Dim, error) {
	var dim graph.Dim
	isConstant := kind == constantDecl
	if !l.scan.nextIsString() {
		want := "an integer, a symbol or an expression"
		if isConstant {
			want = "an integer"
		}
		if ok, err := l.scan.expectNumber(want); !ok {
			return dim, err
		}
		return dim, l.scan.integerTo(&dim.Size)
	}
	var text string
	err := l.scan.stringTo(&text)
	_, numberErr := strconv.Atoi(text)
	switch {
	case isConstant:
		l.failAt(offset, "a constant's %s cannot be symbolic", key)
	case text == "":
		l.failAt(offset, "a symbol needs a name")
	case numberErr == nil: // an integer in quotes
		l.failAt(offset, "want an integer, a symbol or an expression, got %q; did you mean %s?", text, text)
	default:
		dim = graph.ParseDim(text)
		if key != "shape" || dim.Expr != "" {
			l.expressions = append(l.expressions, expression{decl: decl, key: key, index: len(decl.parsed.Dims),
				text: text, offset: offset})
		}
	}
	return dim, err
}

// prefixErrors puts the kind and the name of an input or a constant before the texts of its mistakes,
// l.errs[firstErrIndex:]. readDeclaration calls prefixErrors for mistakes in the object. If there are none, the callers
// of readDeclaration call it for later mistakes.
func (l *loader) prefixErrors(firstErrIndex int, kind declKind, name string) {
	for _, e := range l.errs[firstErrIndex:] {
		e.Err = fmt.Errorf("%s %q: %w", kind, name, e.Err)
	}
}

// expression is a size, a stride or an offset written as an expression over symbols.
type expression struct {
	decl   *valueDecl
	key    string // shape, strides or offset
	index  int    // the dimension, if key is shape
	text   string
	offset int // offset of the text in the file
}

// checkExpressions checks expressions after all symbols are known. In imported models, the name of a symbol may look
// like an expression. If the file declares a symbol "a + b", the size "a + b" is this symbol, not a sum.
func (l *loader) checkExpressions() {
	for _, e := range l.expressions {
		dim := graph.ParseDim(e.text)
		if l.declaredSymbols[e.text] && e.key == "shape" {
			e.decl.parsed.Dims[e.index] = graph.Dim{Symbol: e.text} // the input of the graph shares this slice
		} else if err := dim.Check(l.graph.Symbols); err != nil {
			l.failAt(e.offset, "input %q: %s: %w", e.decl.name, e.key, err)
		}
	}
}

// constData returns the data of a constant. If it fails, mistakeOffset is the offset of the mistake in the file.
func (l *loader) constData(decl *valueDecl) (t *tensor.Tensor, mistakeOffset int, err error) {
	var isText bool
	if decl.parsed.DType, isText, err = parseDType(decl.dtype); err != nil {
		return nil, decl.dtypeOffset, err
	}
	var code func(string) int64 // nil for numbers
	if isText {
		code = l.texts.Enlist
	}
	declared, err := decl.parsed.Type(nil)
	if err != nil {
		return nil, decl.offset, err
	}
	meta, _ := declared.Meta()
	if err := checkStorageSize(meta); err != nil {
		return nil, decl.offset, err
	}
	mistakeOffset = decl.offset
	switch {
	case (decl.data == nil) == (decl.file == ""): // both or neither
		return nil, decl.offset, errors.New("want either \"data\" or \"file\"")
	case decl.data != nil && decl.key != "":
		return nil, decl.offset, errors.New("\"key\" needs \"file\"")
	case decl.data != nil:
		t, mistakeOffset, err = parseData(decl.data, decl.dataOffset, meta, code)
	default:
		t, err = l.readDataFile(decl, meta, isText)
	}
	if err != nil {
		return nil, mistakeOffset, err
	}
	if t, err = withLayout(t, meta); isText && err == nil {
		t.SetTexts(l.texts)
	}
	return t, decl.offset, err
}

// withLayout returns t with the layout of meta. t need not be row-major, and may be a part of a storage that several
// tensors of a file share. If the elements of t already have the strides of meta, the result is a view of the storage.
// Otherwise it is a copy.
func withLayout(t *tensor.Tensor, meta tensor.Meta) (*tensor.Tensor, error) {
	if meta.Offset == 0 && meta.SameAddresses(t.Meta) {
		first := min(t.Offset*meta.DType.Size(), t.Storage().Len()) // byte offset of the first element
		return tensor.FromStorage(meta, tensor.StorageOf(t.Storage().Bytes()[first:]))
	}
	out := tensor.Empty(meta)
	tensor.CopyElements(out, t)
	return out, nil
}

// A constant's storage may have at most maxStorageRatio * (elements + freeElements) elements. Without this limit, a few
// bytes of a file with large strides could allocate gigabytes. freeElements permits larger ratios in small constants.
const (
	maxStorageRatio = 64
	freeElements    = 64
)

// checkStorageSize returns an error if a constant exceeds this limit.
func checkStorageSize(meta tensor.Meta) error {
	if limit := maxStorageRatio * (meta.Numel() + freeElements); meta.Extent() > limit {
		return fmt.Errorf("%d elements need a storage of %d elements; the limit is %d", meta.Numel(), meta.Extent(), limit)
	}
	return nil
}

// readDataFile reads the file with a constant's data, which must be inside the graph's folder.
func (l *loader) readDataFile(decl *valueDecl, meta tensor.Meta, isText bool) (*tensor.Tensor, error) {
	if l.openConst == nil {
		return nil, fmt.Errorf("file %q cannot be opened: the graph file was loaded without a folder of files", decl.file)
	}
	path, err := l.source.folder.Path(decl.file)
	if err != nil {
		return nil, err
	}
	foundMeta, read, err := l.openConst(path, decl.key)
	if err != nil {
		return nil, withFileName(err, path, decl.file)
	}
	if isText && isStringsOf(foundMeta, meta.Shape) {
		array, err := read()
		if err == nil {
			array, err = l.encodeFile(array, meta.Shape)
		}
		return array, withFileName(err, path, decl.file)
	}
	// numpy has no bfloat16: the file has the bits as a uint16 array.
	isBFloat16 := foundMeta.DType == tensor.Uint16 && meta.DType == tensor.BFloat16
	if isText || foundMeta.DType != meta.DType && !isBFloat16 || !slices.Equal(foundMeta.Shape, meta.Shape) {
		return nil, fmt.Errorf("the file holds %v%s, the graph says %v%s", foundMeta.DType,
			tensor.ListString(foundMeta.Shape), decl.dtype, tensor.ListString(meta.Shape))
	}
	t, err := read()
	if err != nil || !isBFloat16 {
		return t, withFileName(err, path, decl.file)
	}
	return t.View(t.Meta.WithDType(tensor.BFloat16))
}

// withFileName replaces the path in an error by the name that the graph file gives the data file.
func withFileName(err error, path, file string) error {
	if err == nil {
		return nil
	}
	if message, found := strings.CutPrefix(err.Error(), path); found {
		return &rewordedError{file + message, err}
	}
	return err
}

// rewordedError has another text than err. It unwraps to err.
type rewordedError struct {
	text string
	err  error
}

func (e *rewordedError) Error() string { return e.text }
func (e *rewordedError) Unwrap() error { return e.err }
