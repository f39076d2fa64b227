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

// valueDecl is the declaration of an input or a constant.
type valueDecl struct {
	name, dtype, file, key string
	hasDType, hasShape     bool
	graphDecl              graph.Decl
	data                   []byte // the JSON of "data"
	at, dtypeAt, dataAt    int    // offsets of the declaration, the dtype and the data in the file
}

const (
	inputKeys    = "name, dtype, shape, strides, offset, memory_format, order"
	constantKeys = "name, dtype, shape, data, file, key, strides, offset, memory_format, order"
)

// readDeclaration reads the object of an input or a constant. ok reports that no mistake was found.
func (l *loader) readDeclaration(at int, isConstant bool) (d *valueDecl, ok bool, err error) {
	d = &valueDecl{at: at}
	firstErr := len(l.errs)
	err = l.scan.object(func(key string, at int) error { return l.declarationKey(d, key, at, isConstant) })
	kind := "input"
	if isConstant {
		kind = "constant"
	}
	if len(l.errs) == firstErr && err == nil {
		switch {
		case d.name == "":
			l.failAt(at, "\"name\" is missing")
		case l.g.Value(d.name) != nil:
			l.failAt(at, "two values are named %q", d.name)
		case !d.hasDType:
			l.failAt(at, "\"dtype\" is missing")
		case !d.hasShape:
			l.failAt(at, "\"shape\" is missing")
		case d.graphDecl.Strides != nil && d.graphDecl.Layout.SetsLayout():
			key := "memory_format"
			if d.graphDecl.Layout.Order != "" {
				key = "order"
			}
			l.failAt(at, "\"strides\" and %q cannot both be given", key)
		default:
			l.checkLayout(d.graphDecl.Layout, at)
		}
	}
	l.prefixErrors(firstErr, kind, d.name)
	return d, len(l.errs) == firstErr && err == nil, err
}

// prefixErrors puts the kind and the name of an input or a constant before the texts of its mistakes, which are
// l.errs[firstErr:].
func (l *loader) prefixErrors(firstErr int, kind, name string) {
	for _, e := range l.errs[firstErr:] {
		e.Err = fmt.Errorf("%s %q: %w", kind, name, e.Err)
	}
}

func (l *loader) declarationKey(d *valueDecl, key string, at int, isConstant bool) error {
	switch {
	case key == "name":
		return l.scan.stringTo(&d.name)
	case key == "dtype":
		d.hasDType, d.dtypeAt = true, l.scan.at()
		return l.scan.stringTo(&d.dtype)
	case key == "shape":
		d.hasShape = true
		return l.scan.array(func(at int) error {
			dim, err := l.readDim(d, "shape", at, isConstant)
			if dim.Size < 0 {
				l.failAt(at, "negative size %d", dim.Size)
			}
			d.graphDecl.Dims = append(d.graphDecl.Dims, dim)
			return err
		})
	case key == "strides":
		d.graphDecl.Strides = []graph.Dim{}
		return l.scan.array(func(at int) error {
			dim, err := l.readDim(d, "strides", at, isConstant)
			d.graphDecl.Strides = append(d.graphDecl.Strides, dim)
			return err
		})
	case key == "offset":
		dim, err := l.readDim(d, "offset", l.scan.at(), isConstant)
		d.graphDecl.Offset = dim
		return err
	case key == "memory_format":
		return l.scan.formatTo(&d.graphDecl.Layout.Format)
	case key == "order":
		return l.scan.orderTo(&d.graphDecl.Layout.Order)
	case key == "data" && isConstant:
		d.dataAt = l.scan.at()
		raw, err := l.scan.raw()
		d.data = raw
		return err
	case key == "file" && isConstant:
		return l.scan.stringTo(&d.file)
	case key == "key" && isConstant:
		return l.scan.stringTo(&d.key)
	case isConstant:
		return l.unknownKey(key, at, constantKeys)
	}
	return l.unknownKey(key, at, inputKeys)
}

// readDim reads a size, a stride or an offset. key is the key of the list or of the number: shape, strides or offset.
func (l *loader) readDim(d *valueDecl, key string, at int, isConstant bool) (graph.Dim, error) {
	var dim graph.Dim
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
		l.failAt(at, "a constant's %s cannot be symbolic", key)
	case text == "":
		l.failAt(at, "a symbol needs a name")
	case numberErr == nil:
		l.failAt(at, "want an integer, a symbol or an expression, got %q; did you mean %s?", text, text)
	default:
		dim = graph.ParseDim(text)
		if key != "shape" || dim.Expr != "" {
			l.expressions = append(l.expressions, expression{d, key, len(d.graphDecl.Dims), text, at})
		}
	}
	return dim, err
}

// expression is a size, a stride or an offset written as an expression over symbols.
type expression struct {
	decl  *valueDecl
	key   string // shape, strides or offset
	index int    // the dimension, if key is shape
	text  string
	at    int // offset of the text in the file
}

// checkExpressions checks expressions after all symbols are known. A text that looks like an expression is a symbol if
// the file declares a symbol of that name. Imported models have such symbols.
func (l *loader) checkExpressions() {
	for _, e := range l.expressions {
		dim := graph.ParseDim(e.text)
		if l.declaredSymbols[e.text] && e.key == "shape" {
			e.decl.graphDecl.Dims[e.index] = graph.Dim{Symbol: e.text}
		} else if err := dim.Check(l.g.Symbols); err != nil {
			l.failAt(e.at, "input %q: %s: %w", e.decl.name, e.key, err)
		}
	}
}

func (l *loader) readInput(at int) error {
	firstErr := len(l.errs)
	d, ok, err := l.readDeclaration(at, false)
	if !ok {
		l.skipValue(l.standIn(d.name, false), firstErr, err)
		return err
	}
	if d.graphDecl.DType, err = tensor.ParseDType(d.dtype); err != nil {
		l.failAt(d.dtypeAt, "%w", err)
	}
	for _, dim := range d.graphDecl.Dims {
		if dim.Symbol != "" {
			l.addSymbol(dim.Symbol)
		}
	}
	if len(l.errs) == firstErr {
		v, err := l.draft.Input(d.name, d.graphDecl)
		if err == nil {
			l.places.setValue(v, at)
			return nil
		}
		l.failAt(at, "%w", err)
	}
	l.prefixErrors(firstErr, "input", d.name)
	l.skipValue(l.standIn(d.name, false), firstErr, nil)
	return nil
}

// skipValue lets ParseSome continue past the mistakes of an input or a constant, which are l.errs[firstErr:]. It marks
// v as unavailable. v is nil if the declaration has no name or the name of another value. It does nothing after a
// syntax error, because the position in the file is then unknown.
func (l *loader) skipValue(v *graph.Value, firstErr int, syntaxErr error) {
	if v == nil || !l.skipsMistakes() || syntaxErr != nil || len(l.errs) == firstErr {
		return
	}
	l.unavailable[v] = true
	l.skipped, l.errs = append(l.skipped, l.errs[firstErr:]...), l.errs[:firstErr]
}

// standIn declares a placeholder with the name of a rejected input or constant, so that nodes that read it are not
// rejected for an unknown name. It returns nil if the name is empty, or if another value has the name.
func (l *loader) standIn(name string, isConstant bool) (v *graph.Value) {
	if isConstant {
		v, _ = l.draft.Constant(name, graph.Pin{}, tensor.Zeros(tensor.Float32))
	} else {
		v, _ = l.draft.Input(name, graph.Decl{DType: tensor.Float32})
	}
	return v
}

func (l *loader) readConstant(at int) error {
	interrupt.Check(l.ctx)
	firstErr := len(l.errs)
	d, ok, err := l.readDeclaration(at, true)
	if !ok {
		l.skipValue(l.standIn(d.name, true), firstErr, err)
		return err
	}
	t, wrongAt, err := l.constData(d)
	if err != nil {
		l.failAt(wrongAt, "%w", err)
		l.prefixErrors(firstErr, "constant", d.name)
		l.skipValue(l.standIn(d.name, true), firstErr, nil)
		return nil
	}
	if d.file != "" {
		l.src.files[weak.Make(t)] = constRef{d.file, d.key}
	}
	v, err := l.draft.Constant(d.name, d.graphDecl.Layout, t)
	if err != nil {
		return err
	}
	l.places.setValue(v, at)
	return nil
}

// constData returns the data of a constant. If it fails, the int is the offset of the mistake in the file.
func (l *loader) constData(d *valueDecl) (*tensor.Tensor, int, error) {
	dt, err := tensor.ParseDType(d.dtype)
	if err != nil {
		return nil, d.dtypeAt, err
	}
	d.graphDecl.DType = dt
	declared, err := d.graphDecl.Type(nil)
	if err != nil {
		return nil, d.at, err
	}
	m, _ := declared.Meta()
	if err := checkStorageSize(m); err != nil {
		return nil, d.at, err
	}
	var t *tensor.Tensor
	at := d.at
	switch {
	case (d.data == nil) == (d.file == ""):
		return nil, d.at, errors.New("want either \"data\" or \"file\"")
	case d.data != nil && d.key != "":
		return nil, d.at, errors.New("\"key\" needs \"file\"")
	case d.data != nil:
		t, at, err = parseData(d.data, d.dataAt, m)
	default:
		t, err = l.readConst(d, m)
	}
	if err != nil {
		return nil, at, err
	}
	t, err = withLayout(t, m)
	return t, d.at, err
}

// withLayout returns t with the layout of m. The result is a view of t if the elements have the same addresses in both
// layouts, otherwise a copy. Tensors in files need not be row-major, and several tensors of a file may share one
// storage.
func withLayout(t *tensor.Tensor, m tensor.Meta) (*tensor.Tensor, error) {
	if m.Offset == 0 && m.SameAddresses(t.Meta) {
		size := m.DType.Size()
		return tensor.Over(m, tensor.StorageOf(t.Storage().Bytes()[min(t.Offset*size, t.Storage().Len()):]))
	}
	out := tensor.Empty(m)
	tensor.CopyElements(out, t)
	return out, nil
}

// The limit on the storage of a constant with strides, in elements, is maxStorageRatio for each element and for
// freeElements further elements, which permit any strides in small constants. Without the limit, a few bytes of a file
// could allocate gigabytes.
const (
	maxStorageRatio = 64
	freeElements    = 64
)

func checkStorageSize(m tensor.Meta) error {
	if limit := maxStorageRatio * (m.Numel() + freeElements); m.Extent() > limit {
		return fmt.Errorf("%d elements need a storage of %d elements; the limit is %d", m.Numel(), m.Extent(), limit)
	}
	return nil
}

// readConst reads a constant's file, which must be inside the graph's folder.
func (l *loader) readConst(d *valueDecl, m tensor.Meta) (*tensor.Tensor, error) {
	if l.openConst == nil {
		return nil, fmt.Errorf("file %q cannot be opened here", d.file)
	}
	path, err := l.src.folder.Path(d.file)
	if err != nil {
		return nil, err
	}
	found, read, err := l.openConst(path, d.key)
	if err != nil {
		return nil, withFileName(err, path, d.file)
	}
	// numpy has no bfloat16: its bits are in a uint16 array.
	bits := found.DType == tensor.Uint16 && m.DType == tensor.BFloat16
	if found.DType != m.DType && !bits || !slices.Equal(found.Shape, m.Shape) {
		return nil, fmt.Errorf("the file holds %v%s, the graph says %v%s", found.DType, tensor.ListString(found.Shape),
			m.DType, tensor.ListString(m.Shape))
	}
	t, err := read()
	if err != nil || !bits {
		return t, withFileName(err, path, d.file)
	}
	return t.View(t.Meta.WithDType(tensor.BFloat16))
}

// rewordedError replaces the text of err, and unwraps to err.
type rewordedError struct {
	text string
	err  error
}

func (e *rewordedError) Error() string { return e.text }
func (e *rewordedError) Unwrap() error { return e.err }

// withFileName replaces the path in an error by the file's name in the graph file.
func withFileName(err error, path, file string) error {
	if err == nil {
		return nil
	}
	if rest, found := strings.CutPrefix(err.Error(), path); found {
		return &rewordedError{file + rest, err}
	}
	return err
}
