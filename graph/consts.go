package graph

import (
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/graphrun/graphrun/tensor"
)

// constFile is where the data of a constant is kept; empty for data in the graph file.
type constFile struct{ path, key string }

// declared is what the file says of an input or a constant.
type declared struct {
	name, dtype, file, key string
	dims                   []Dim
	hasShape, hasStrides   bool
	strides                []int
	offset                 int
	format                 tensor.MemoryFormat
	data                   []byte
	at, dataAt             int
}

// declaration reads the object of an input or a constant; allowed lists the keys.
func (l *loader) declaration(at int, what, allowed string, constant bool) (*declared, error) {
	d := &declared{at: at}
	err := l.scan.object(func(key string, at int) error {
		switch {
		case key == "name":
			return l.scan.text(&d.name)
		case key == "dtype":
			return l.scan.text(&d.dtype)
		case key == "shape":
			d.hasShape = true
			return l.scan.array(func(at int) error { return l.dim(d, at, constant) })
		case key == "strides" && !constant:
			d.hasStrides = true
			return l.scan.array(func(int) error {
				var i int
				err := l.scan.integer(&i)
				d.strides = append(d.strides, i)
				return err
			})
		case key == "offset" && !constant:
			return l.scan.integer(&d.offset)
		case key == "memory_format":
			return l.scan.format(l, &d.format)
		case key == "data" && constant:
			d.dataAt = l.scan.at()
			raw, err := l.scan.raw()
			d.data = raw
			return err
		case key == "file" && constant:
			return l.scan.text(&d.file)
		case key == "key" && constant:
			return l.scan.text(&d.key)
		}
		return l.unknown(key, at, allowed)
	})
	if err != nil {
		return d, err
	}
	if d.name == "" {
		l.failAt(at, "%s without a name", what)
	}
	if l.g.values[d.name] != nil {
		l.failAt(at, "two values are named %q", d.name)
	}
	if !d.hasShape {
		l.failAt(at, "%s %q: \"shape\" is missing", what, d.name)
	}
	return d, nil
}

func (l *loader) dim(d *declared, at int, constant bool) error {
	if !l.scan.isText() {
		var dim Dim
		err := l.scan.integer(&dim.Size)
		if dim.Size < 0 {
			l.failAt(at, "negative size %d", dim.Size)
			dim.Size = 0
		}
		d.dims = append(d.dims, dim)
		return err
	}
	var dim Dim
	err := l.scan.text(&dim.Symbol)
	if constant {
		l.failAt(at, "a constant's shape cannot be symbolic")
	}
	d.dims = append(d.dims, dim)
	return err
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
	d, err := l.declaration(at, "input", "name, dtype, shape, strides, offset, memory_format", false)
	if err != nil {
		return err
	}
	dt, err := tensor.ParseDType(d.dtype)
	if err != nil {
		l.failAt(at, "input %q: %v", d.name, err)
		dt = tensor.Float32
	}
	v := &Value{Name: d.name, format: d.format, strided: d.hasStrides, at: at}
	v.Meta = tensor.Meta{DType: dt, Offset: d.offset, Strides: d.strides}
	symbolic := false
	for _, dim := range d.dims {
		if dim.Symbol == "" {
			continue
		}
		symbolic = true
		if l.g.Symbols == nil {
			l.g.Symbols = map[string]Bounds{}
		}
		if _, ok := l.g.Symbols[dim.Symbol]; !ok {
			l.g.Symbols[dim.Symbol] = Bounds{}
		}
	}
	if symbolic || d.hasStrides && d.format != tensor.NoFormat {
		v.Dims = d.dims
		if d.hasStrides {
			l.failAt(at, "input %q: \"strides\" cannot stand with symbolic sizes or \"memory_format\"", d.name)
		}
	}
	if err := v.setShape(sizes(d.dims, nil)); err != nil {
		l.failAt(at, "input %q: %v", d.name, err)
	}
	l.g.Inputs = append(l.g.Inputs, v)
	l.g.values[d.name] = v
	return nil
}

// setShape completes an input's meta for a shape.
func (v *Value) setShape(shape []int) error {
	v.Meta.Shape = shape
	if !v.strided {
		f := v.format
		if f == tensor.NoFormat {
			f = tensor.Contiguous
		}
		v.Meta.Strides = make([]int, len(shape))
		if err := v.Meta.Check(); err != nil {
			return err
		}
		st, err := f.Strides(shape)
		if err != nil {
			return err
		}
		v.Meta.Strides = st
	}
	return v.Meta.Check()
}

func (l *loader) constant(at int) error {
	d, err := l.declaration(at, "constant", "name, dtype, shape, data, file, key, memory_format", true)
	if err != nil {
		return err
	}
	v := &Value{Name: d.name, at: at, format: d.format, file: constFile{d.file, d.key}}
	t, at, err := l.constData(d)
	if err != nil {
		l.failAt(at, "constant %q: %v", d.name, err)
		t = tensor.Zeros(tensor.Float32)
	}
	v.Const, v.Meta = t, t.Meta
	l.g.Constants = append(l.g.Constants, v)
	l.g.values[d.name] = v
	return nil
}

// constData returns the data and, with an error, its place.
func (l *loader) constData(d *declared) (*tensor.Tensor, int, error) {
	dt, err := tensor.ParseDType(d.dtype)
	if err != nil {
		return nil, d.at, err
	}
	m := tensor.Meta{DType: dt, Shape: sizes(d.dims, nil)}
	m.Strides = make([]int, len(m.Shape))
	if err := m.Check(); err != nil {
		return nil, d.at, err
	}
	m = tensor.New(dt, m.Shape...)
	var t *tensor.Tensor
	switch {
	case (d.data == nil) == (d.file == ""):
		return nil, d.at, fmt.Errorf("wants either \"data\" or \"file\"")
	case d.data != nil:
		if t, err = parseData(d.data, m); err != nil {
			return nil, d.dataAt, err
		}
	default:
		if t, err = l.readConst(d, m); err != nil {
			return nil, d.at, err
		}
	}
	if d.format != tensor.NoFormat && !t.Is(d.format) {
		st, err := d.format.Strides(t.Shape)
		if err != nil {
			return nil, d.at, err
		}
		t = t.CopyTo(t.Meta.WithStrides(st))
	}
	return t, d.at, nil
}

// readConst opens a constant's file, which may not lie outside the graph's folder.
func (l *loader) readConst(d *declared, m tensor.Meta) (*tensor.Tensor, error) {
	if !filepath.IsLocal(filepath.FromSlash(d.file)) {
		return nil, fmt.Errorf("file %q is outside the folder of the graph file", d.file)
	}
	if l.open == nil {
		return nil, fmt.Errorf("file %q cannot be opened here", d.file)
	}
	path, err := filepath.EvalSymlinks(filepath.Join(l.dir, filepath.FromSlash(d.file)))
	if err != nil {
		return nil, err
	}
	root, err := filepath.EvalSymlinks(l.dir)
	if err != nil {
		return nil, err
	}
	if rel, err := filepath.Rel(root, path); err != nil || !filepath.IsLocal(rel) {
		return nil, fmt.Errorf("file %q is outside the folder of the graph file", d.file)
	}
	t, err := l.open(path, d.key)
	if err != nil {
		return nil, err
	}
	if t.DType == tensor.Uint16 && m.DType == tensor.BFloat16 {
		// numpy has no bfloat16: the bits stand in a uint16 array.
		if t, err = t.View(t.Meta.WithDType(tensor.BFloat16)); err != nil {
			return nil, err
		}
	}
	if t.DType != m.DType || tensor.ListString(t.Shape) != tensor.ListString(m.Shape) {
		return nil, fmt.Errorf("the file holds %v%s, the graph says %v%s", t.DType, tensor.ListString(t.Shape), m.DType, tensor.ListString(m.Shape))
	}
	return t, nil
}

// parseData reads nested or flat numbers in logical row-major order. A complex element is
// a pair of numbers, or one number if all are. "NaN", "Infinity" and "-Infinity" stand as
// strings.
func parseData(raw []byte, m tensor.Meta) (*tensor.Tensor, error) {
	s := newScanner(raw)
	var flat []tensor.Scalar
	limit := 2*m.Numel() + 1
	var walk func() error
	walk = func() error {
		if s.dec.PeekKind() == '[' {
			return s.array(func(int) error { return walk() })
		}
		v, err := s.value()
		if err != nil {
			return err
		}
		sc, ok := tensor.ScalarOf(v)
		if text, is := v.(string); is {
			f, err := strconv.ParseFloat(text, 64)
			sc, ok = tensor.FloatScalar(f), err == nil
		}
		if !ok {
			return fmt.Errorf("data: want numbers, got %v", v)
		}
		if len(flat) < limit {
			flat = append(flat, sc)
		}
		return nil
	}
	if err := walk(); err != nil {
		return nil, err
	}
	if m.DType.IsComplex() && len(flat) == 2*m.Numel() {
		for i := range m.Numel() {
			flat[i] = tensor.ComplexScalar(complex(flat[2*i].Float(), flat[2*i+1].Float()))
		}
		flat = flat[:m.Numel()]
	}
	if len(flat) != m.Numel() {
		return nil, fmt.Errorf("data holds %d numbers, shape %s wants %d", len(flat), tensor.ListString(m.Shape), m.Numel())
	}
	t := tensor.Empty(m)
	for i, sc := range flat {
		t.SetFlat(i, sc)
	}
	return t, nil
}
