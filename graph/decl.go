package graph

import (
	"slices"

	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Decl is how an input or a constant is declared: its layout by name or by strides. Sizes, strides and the
// offset of an input may depend on symbols.
type Decl struct {
	DType tensor.DType
	Dims  []Dim
	// Layout is a memory format or an order; without one, and without Strides, the value is row-major.
	Layout  Pin
	Strides []Dim
	Offset  Dim
}

// Type returns what is declared for the given values of symbols. The error names a symbol without a value,
// or what no sizes allow.
func (d Decl) Type(symbols map[string]sym.Int) (tensor.Type, error) {
	t := tensor.Type{DType: d.DType, Shape: make([]sym.Int, len(d.Dims))}
	var err error
	list := func(to []sym.Int, from []Dim) {
		for i := 0; i < len(from) && err == nil; i++ {
			to[i], err = from[i].In(symbols)
		}
	}
	list(t.Shape, d.Dims)
	if err == nil {
		t.Offset, err = d.Offset.In(symbols)
	}
	if err != nil {
		return t, err
	}
	if d.Strides != nil {
		t.Strides = make([]sym.Int, len(d.Strides))
		list(t.Strides, d.Strides)
	} else {
		if err := tensor.CheckSizes(d.DType, t.Shape); err != nil {
			return t, err
		}
		p := d.Layout
		if !p.Lays() {
			p.Format = tensor.Contiguous
		}
		o, err := p.For(len(t.Shape))
		if err != nil {
			return t, err
		}
		t.Strides = o.StridesOf(t.Shape)
	}
	if err != nil {
		return t, err
	}
	return t, t.Check()
}

// unbound returns what is declared before symbols have values: what depends on them is 0.
func (d Decl) unbound() (tensor.Meta, error) {
	if !d.symbolic() {
		t, err := d.Type(nil)
		if err != nil {
			return tensor.Meta{}, err
		}
		m, _ := t.Meta()
		return m, nil
	}
	plain := func(list []Dim) []Dim {
		list = slices.Clone(list)
		for i := range list {
			list[i].Symbol, list[i].Expr = "", ""
		}
		return list
	}
	d.Dims, d.Strides, d.Offset = plain(d.Dims), plain(d.Strides), plain([]Dim{d.Offset})[0]
	return d.unbound()
}

// symbolic reports whether the declaration depends on symbols.
func (d *Decl) symbolic() bool { return d.some(func(x Dim) bool { return !x.IsNumber() }) }

// uses reports whether the declaration depends on a symbol.
func (d *Decl) uses(symbol string) bool { return d.some(func(x Dim) bool { return x.uses(symbol) }) }

func (d *Decl) some(is func(Dim) bool) bool {
	return slices.ContainsFunc(d.Dims, is) || slices.ContainsFunc(d.Strides, is) || is(d.Offset)
}

// Declared returns how the input was declared: with sizes, strides and an offset as written, where these depend on
// symbols. The slices must not be written. Of other values only the dtype and the layout are told.
func (v *Value) Declared() Decl {
	if v == nil || v.decl == nil {
		return Decl{}
	}
	return *v.decl
}
