package graph

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/graphrun/graphrun/internal/files"
	"github.com/graphrun/graphrun/tensor"
)

// constFile is where the data of a constant is kept; empty for data in the graph file.
type constFile struct{ path, key string }

// declared is what the file says of an input or a constant.
type declared struct {
	name, dtype, file, key      string
	dims                        []Dim
	hasDType, hasShape, strided bool
	strides                     []int
	offset                      int
	layout                      Pin
	data                        []byte
	at, dtypeAt, dataAt         int
}

const (
	inputKeys    = "name, dtype, shape, strides, offset, memory_format, order"
	constantKeys = "name, dtype, shape, data, file, key, strides, offset, memory_format, order"
)

// declaration reads the object of an input or a constant. ok tells that nothing is wrong
// with it so far.
func (l *loader) declaration(at int, constant bool) (d *declared, ok bool, err error) {
	d = &declared{at: at}
	before := len(l.errs)
	err = l.scan.object(func(key string, at int) error { return l.declare1(d, key, at, constant) })
	what := "input"
	if constant {
		what = "constant"
	}
	if len(l.errs) == before && err == nil {
		switch {
		case d.name == "":
			l.failAt(at, "it has no name")
		case l.g.named().values[d.name] != nil:
			l.failAt(at, "two values are named %q", d.name)
		case !d.hasDType:
			l.failAt(at, "\"dtype\" is missing")
		case !d.hasShape:
			l.failAt(at, "\"shape\" is missing")
		case d.strided && d.layout.Lays():
			l.failAt(at, "\"strides\" and %s cannot both be given", d.layout.key())
		case d.layout.both():
			l.failAt(at, "%v", errBoth)
		}
	}
	l.blame(before, what, d.name)
	return d, len(l.errs) == before && err == nil, err
}

// blame says of the mistakes since before which input or constant they are of.
func (l *loader) blame(before int, what, name string) {
	for _, e := range l.errs[before:] {
		e.Err = fmt.Errorf("%s %q: %w", what, name, e.Err)
	}
}

func (l *loader) declare1(d *declared, key string, at int, constant bool) error {
	switch {
	case key == "name":
		return l.scan.text(&d.name)
	case key == "dtype":
		d.hasDType, d.dtypeAt = true, l.scan.at()
		return l.scan.text(&d.dtype)
	case key == "shape":
		d.hasShape = true
		return l.scan.array(func(at int) error { return l.dim(d, at, constant) })
	case key == "strides":
		d.strided = true
		return l.scan.array(func(int) error {
			var i int
			err := l.scan.integer(&i)
			d.strides = append(d.strides, i)
			return err
		})
	case key == "offset":
		return l.scan.integer(&d.offset)
	case key == "memory_format":
		return l.scan.format(&d.layout.Format)
	case key == "order":
		return l.scan.order(&d.layout.Order)
	case key == "data" && constant:
		d.dataAt = l.scan.at()
		raw, err := l.scan.raw()
		d.data = raw
		return err
	case key == "file" && constant:
		return l.scan.text(&d.file)
	case key == "key" && constant:
		return l.scan.text(&d.key)
	case constant:
		return l.unknown(key, at, constantKeys)
	}
	return l.unknown(key, at, inputKeys)
}

func (l *loader) dim(d *declared, at int, constant bool) error {
	var dim Dim
	var err error
	if l.scan.isText() {
		err = l.scan.text(&dim.Symbol)
		switch {
		case constant:
			l.failAt(at, "a constant's shape cannot be symbolic")
		default:
			l.symbolic(d, dim.Symbol, at)
		}
	} else if err = l.scan.integer(&dim.Size); dim.Size < 0 {
		l.failAt(at, "negative size %d", dim.Size)
	}
	d.dims = append(d.dims, dim)
	return err
}

// symbolic notes a size that is written as text. What looks like arithmetic is refused when
// all symbols are known, unless it is the name of one.
func (l *loader) symbolic(d *declared, text string, at int) {
	switch _, err := strconv.Atoi(text); {
	case text == "":
		l.failAt(at, "a symbol needs a name")
	case err == nil:
		l.failAt(at, "want an integer or the name of a symbol, got %q; did you mean %s?", text, text)
	case isExpression(text):
		l.expressions = append(l.expressions, expression{d, text, at})
	}
}

// expression is a size that is written as arithmetic.
type expression struct {
	of   *declared
	text string
	at   int
}

// checkExpressions refuses sizes that are arithmetic. A model from elsewhere may have a
// symbol of such a name: it then stands among the file's symbols.
func (l *loader) checkExpressions() {
	for _, e := range l.expressions {
		if !l.declaredSymbols[e.text] {
			l.failAt(e.at, "input %q: want an integer or the name of a symbol, got %q: expressions over symbols are not supported yet", e.of.name, e.text)
		}
	}
}

// sizes returns the shape, with symbols replaced.
func sizes(dims []Dim, bound map[string]int) []int {
	shape := make([]int, len(dims))
	for i, d := range dims {
		shape[i] = d.Size
		if d.Symbol != "" {
			shape[i] = bound[d.Symbol]
		}
	}
	return shape
}

func (l *loader) input(at int) error {
	before := len(l.errs)
	d, ok, err := l.declaration(at, false)
	v := &Value{Name: d.name, layout: d.layout, strided: d.strided, graph: l.g, at: at}
	if !ok {
		l.standIn(v)
		l.pass(v, before, err)
		return err
	}
	if v.Meta.DType, err = tensor.ParseDType(d.dtype); err != nil {
		l.failAt(d.dtypeAt, "%w", err)
	}
	v.Meta.Offset, v.Meta.Strides = d.offset, d.strides
	for _, dim := range d.dims {
		if dim.Symbol != "" {
			l.symbol(dim.Symbol)
			v.Dims = d.dims
		}
	}
	if v.Dims != nil && d.strided {
		l.failAt(at, "\"strides\" cannot stand with symbolic sizes")
	}
	if len(l.errs) == before {
		if err := v.setShape(sizes(d.dims, nil)); err != nil {
			l.failAt(at, "%w", err)
		}
	}
	l.blame(before, "input", d.name)
	if l.pass(v, before, nil) {
		l.standIn(v)
		return nil
	}
	l.g.Inputs = append(l.g.Inputs, v)
	l.g.number(v)
	l.g.named().values[d.name] = v
	return nil
}

// pass reads past the mistakes since before, which are an input's or a constant's that then cannot
// be had, if the loader does so and has not lost its place, and reports whether it has.
func (l *loader) pass(v *Value, before int, lost error) bool {
	other := l.g.named().values[v.Name]
	if l.absent == nil || lost != nil || len(l.errs) == before || v.Name == "" || other != nil && other != v {
		return false
	}
	l.absent[v] = true
	l.missing, l.errs = append(l.missing, l.errs[before:]...), l.errs[:before]
	return true
}

// standIn makes the name of a refused input or constant known, so that its users are
// not refused for that.
func (l *loader) standIn(v *Value) {
	if v.Name != "" && l.g.named().values[v.Name] == nil {
		l.g.number(v)
		l.g.named().values[v.Name] = v
	}
}

// setShape completes an input's meta for a shape.
func (v *Value) setShape(shape []int) error {
	v.Meta.Shape = shape
	if !v.strided {
		p := v.layout
		if !p.Lays() {
			p.Format = tensor.Contiguous
		}
		v.Meta.Strides = make([]int, len(shape))
		if err := v.Meta.Check(); err != nil {
			return err
		}
		o, err := p.For(len(shape))
		if err != nil {
			return err
		}
		v.Meta.Strides = o.Strides(shape)
	}
	if err := v.Meta.Check(); err != nil {
		return err
	}
	v.Type = v.Meta.Type()
	return nil
}

func (l *loader) constant(at int) error {
	before := len(l.errs)
	d, ok, err := l.declaration(at, true)
	v := &Value{Name: d.name, graph: l.g, at: at, layout: d.layout, strided: d.strided, file: constFile{d.file, d.key}}
	if !ok {
		v.Const = tensor.Zeros(tensor.Float32)
		l.standIn(v)
		l.pass(v, before, err)
		return err
	}
	t, at, err := l.constData(v, d)
	if err != nil {
		l.failAt(at, "%w", err)
		t = tensor.Zeros(tensor.Float32)
	}
	l.blame(before, "constant", d.name)
	l.pass(v, before, nil)
	v.Const = t
	v.SetMeta(t.Meta)
	l.g.Constants = append(l.g.Constants, v)
	l.g.number(v)
	l.g.named().values[d.name] = v
	return nil
}

// constData returns the data and, with an error, its place.
func (l *loader) constData(v *Value, d *declared) (*tensor.Tensor, int, error) {
	dt, err := tensor.ParseDType(d.dtype)
	if err != nil {
		return nil, d.dtypeAt, err
	}
	v.Meta = tensor.Meta{DType: dt, Offset: d.offset, Strides: d.strides}
	if err := v.setShape(sizes(d.dims, nil)); err != nil {
		return nil, d.at, err
	}
	m := v.Meta
	if err := checkSpread(m); err != nil {
		return nil, d.at, err
	}
	var t *tensor.Tensor
	at := d.at
	switch {
	case (d.data == nil) == (d.file == ""):
		return nil, d.at, errors.New("wants either \"data\" or \"file\"")
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
	t, err = layAs(t, m)
	return t, d.at, err
}

// layAs returns t as m says, over its own storage if that will do: files may hold other
// orders than row-major, and many tensors in one storage.
func layAs(t *tensor.Tensor, m tensor.Meta) (*tensor.Tensor, error) {
	if m.Offset == 0 && m.SameAddresses(t.Meta) {
		size := m.DType.Size()
		return tensor.Over(m, tensor.StorageOf(t.Storage().Bytes()[min(t.Offset*size, t.Storage().Len()):]))
	}
	laid := tensor.Empty(m)
	tensor.CopyElements(laid, t)
	return laid, nil
}

// maxSpread bounds the storage of a constant with strides to so many elements for each
// of its own: a few bytes of a file must not make us allocate gigabytes.
const maxSpread = 64

func checkSpread(m tensor.Meta) error {
	if m.Extent() > maxSpread*(m.Numel()+64) {
		return fmt.Errorf("%d elements spread over %d of storage", m.Numel(), m.Extent())
	}
	return nil
}

// readConst opens a constant's file, which may not lie outside the graph's folder.
func (l *loader) readConst(d *declared, m tensor.Meta) (*tensor.Tensor, error) {
	if l.open == nil {
		return nil, fmt.Errorf("file %q cannot be opened here", d.file)
	}
	path, err := inside(l.dir, d.file)
	if err != nil {
		return nil, files.OfFile(d.file, err)
	}
	found, read, err := l.open(path, d.key)
	if err != nil {
		return nil, err
	}
	// numpy has no bfloat16: the bits stand in a uint16 array.
	bits := found.DType == tensor.Uint16 && m.DType == tensor.BFloat16
	if found.DType != m.DType && !bits || !slices.Equal(found.Shape, m.Shape) {
		return nil, fmt.Errorf("the file holds %v%s, the graph says %v%s", found.DType, tensor.ListString(found.Shape),
			m.DType, tensor.ListString(m.Shape))
	}
	t, err := read()
	if err != nil || !bits {
		return t, err
	}
	return t.View(t.Meta.WithDType(tensor.BFloat16))
}

// inside returns the path of a file in the folder, with symbolic links followed: neither
// ".." nor a link may lead out of it.
func inside(dir, file string) (string, error) {
	outside := fmt.Errorf("file %q is outside the folder of the graph file", file)
	local := filepath.FromSlash(file)
	if !filepath.IsLocal(local) {
		return "", outside
	}
	path, err := filepath.EvalSymlinks(filepath.Join(dir, local))
	if err != nil {
		return "", err
	}
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	// A link to an absolute path makes one of the two absolute.
	if path, err = filepath.Abs(path); err != nil {
		return "", err
	}
	if root, err = filepath.Abs(root); err != nil {
		return "", err
	}
	if rel, err := filepath.Rel(root, path); err != nil || !filepath.IsLocal(rel) {
		return "", outside
	}
	return path, nil
}
