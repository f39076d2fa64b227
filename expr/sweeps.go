package expr

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/tensor"
)

// Sweeps is a [Code] that folds rows, as loops over a row, one after the other: a sweep computes what needs no fold of
// its own or of a later one. There are as few as the nesting of folds allows; folds that do not wait for one another
// share a sweep. It is immutable.
//
// A running fold ([Scan]) is a row that is put aside: a sweep writes what is folded there, the row is scanned in place,
// and later sweeps read it.
//
// What is the same for all of a row is a number: folds, operands with one element a row, and what is computed of those
// alone. What differs is computed again where a later sweep needs it or, where that is dearer than memory of the
// cache, put aside as a row.
type Sweeps struct {
	Code    *Code
	Uniform []bool // by operand: has one element a row
	Whole   []bool // by output: has an element for each of the row, else one a row
	Steps   []Sweep
	Numbers []tensor.DType // what sweeps hand on that is the same for all of a row
	Rows    []Row
}

// Sweep is one loop over a row, and what is computed once afterwards.
type Sweep struct {
	// Code is computed for each element: nil where there is nothing to go over.
	Code    *Code
	In, Out []Place // of its operands and outputs
	Folds   []Fold  // of values of Code, each an output that is stored nowhere
	Into    []int   // by fold: the number that is its result
	// After is computed for the row, of numbers and operands with one element a row: nil for nothing.
	After             *Code
	AfterIn, AfterOut []Place
}

// Row is what is put aside of a row: in the memory of an output, or where that is -1 in memory of its own. The
// output is the row itself, or has elements of the same size and is not written before the row is read for the last
// time. A row with a Scan, Add or Mul, is scanned by it, along its elements, when the sweep that writes it has ended:
// see [Scanning].
type Row struct {
	DType tensor.DType
	Out   int
	Scan  Op
}

// Scans reports whether some row is scanned.
func (s *Sweeps) Scans() bool {
	return s != nil && slices.ContainsFunc(s.Rows, func(r Row) bool { return r.Scan != Invalid })
}

// Place tells where an operand of a [Sweep] comes from or an output goes.
type Place struct {
	Kind    PlaceKind
	N       int
	Element int // which of those that a code of [Sweeps.Columns] takes together, or the sweep in that of [Sweeps.Overlap]
}

// PlaceKind is the kind of a [Place].
type PlaceKind uint8

// Nowhere: an output that is there for a fold. AtOperand, AtOutput: those of the whole code. AtRow: Sweeps.Rows.
// AtNumber: Sweeps.Numbers.
const (
	Nowhere PlaceKind = iota
	AtOperand
	AtOutput
	AtRow
	AtNumber
)

// Sweeps splits the code into sweeps over a row. uniform tells by operand whether it has one element a row, and whole
// by output whether it has an element for each of the row. One that has one element must be the same for all of it.
func (c *Code) Sweeps(uniform, whole []bool) (*Sweeps, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if len(uniform) != len(c.In) || len(whole) != len(c.Out) {
		return nil, fmt.Errorf("expr: %d operands and %d outputs of a row for a code with %d and %d", len(uniform),
			len(whole), len(c.In), len(c.Out))
	}
	if positions(c) {
		return nil, errors.New("expr: positions are loaded in sweeps, from an operand")
	}
	s := &splitter{Sweeps: &Sweeps{Code: c, Uniform: uniform, Whole: whole}, code: c}
	s.levels()
	s.scanRows()
	for o := range c.Out {
		if !whole[o] && s.outStream(o) {
			return nil, fmt.Errorf("expr: y%d is not the same for all of a row", o)
		}
	}
	s.Steps = make([]Sweep, s.count())
	s.after = make([][]Value, len(s.Steps))
	for k := len(s.Steps) - 1; k >= 0; k-- {
		if err := s.afterwards(k); err != nil {
			return nil, err
		}
		if err := s.sweep(k); err != nil {
			return nil, err
		}
	}
	s.host()
	return s.Sweeps, nil
}

// splitter knows of each value when it can be had: in which sweep, if it differs within a row, else after which, -1
// for before the first.
type splitter struct {
	*Sweeps
	code   *Code
	stream []bool
	level  []int
	number []int  // by value: its place among Numbers, or -1
	row    []int  // by value: its place among Rows, or -1
	made   []int  // by row: the sweep that puts it aside
	last   []int  // by row: the last sweep that reads it
	own    []bool // by output: it is a scanned row, which is in its memory
	after  [][]Value
}

func (s *splitter) levels() {
	n := len(s.code.Insts)
	s.stream, s.level, s.number, s.row = make([]bool, n), make([]int, n), make([]int, n), make([]int, n)
	for v, i := range s.code.Insts {
		s.number[v], s.row[v], s.level[v] = -1, -1, -1
		if i.Op == Load {
			if s.stream[v] = !s.Uniform[i.A]; s.stream[v] {
				s.level[v] = 0
			}
			continue
		}
		for _, u := range i.Uses() {
			s.stream[v] = s.stream[v] || s.stream[u]
		}
		for _, u := range i.Uses() {
			s.level[v] = max(s.level[v], s.at(u, s.stream[v] || i.Op == Reduce))
		}
		switch i.Op {
		case Reduce:
			s.stream[v], s.level[v] = false, max(s.level[v], 0)
		case Scan:
			s.stream[v], s.level[v] = true, max(s.at(i.A, true), 0)+1
		}
	}
}

// scanRows puts the rows that are scanned aside, where one is an output in the memory of that.
func (s *splitter) scanRows() {
	s.own = make([]bool, len(s.code.Out))
	for v, i := range s.code.Insts {
		if i.Op != Scan {
			continue
		}
		s.row[v] = len(s.Rows)
		r := Row{DType: i.DType, Out: -1, Scan: Op(i.Imm)}
		for o, out := range s.code.Out {
			if out.Re == Value(v) && out.Im == None && s.Whole[o] && r.Out < 0 {
				r.Out, s.own[o] = o, true
			}
		}
		s.Rows = append(s.Rows, r)
		s.made, s.last = append(s.made, s.level[v]-1), append(s.last, s.level[v]-1)
	}
}

// at returns the sweep in which a value can be used, or, for one that is the same for the row and used so, after which
// it is there.
func (s *splitter) at(v Value, inSweep bool) int {
	if inSweep && !s.stream[v] {
		return s.level[v] + 1
	}
	return s.level[v]
}

func (s *splitter) outStream(o int) bool {
	out := s.code.Out[o]
	return s.stream[out.Re] || out.Im != None && s.stream[out.Im]
}

// outLevel returns the sweep in which an output is written or, of one with one element, after which.
func (s *splitter) outLevel(o int) int {
	out := s.code.Out[o]
	if s.own[o] {
		return s.level[out.Re] - 1
	}
	l := s.at(out.Re, s.Whole[o])
	if out.Im != None {
		l = max(l, s.at(out.Im, s.Whole[o]))
	}
	return max(l, 0)
}

func (s *splitter) count() int {
	n := 0
	for o := range s.code.Out {
		n = max(n, s.outLevel(o)+1)
	}
	for v, i := range s.code.Insts {
		switch i.Op {
		case Reduce:
			n = max(n, s.level[v]+1)
		case Scan:
			n = max(n, s.level[v])
		}
	}
	return n
}

// known returns the number that holds a value, which then is computed after its sweep.
func (s *splitter) known(v Value) Place {
	if s.number[v] < 0 {
		s.number[v] = len(s.Numbers)
		s.Numbers = append(s.Numbers, s.code.Insts[v].DType)
		if s.code.Insts[v].Op != Reduce {
			s.after[s.level[v]] = append(s.after[s.level[v]], v)
		}
	}
	return Place{Kind: AtNumber, N: s.number[v]}
}

// emitter makes the code of a sweep or of what comes after it: of the values that are marked, those that from gives a
// place are operands.
type emitter struct {
	s      *splitter
	b      *Builder
	marked []bool
	places []Place
	from   func(v Value) (Place, bool)
}

func (s *splitter) emitter(from func(v Value) (Place, bool)) *emitter {
	return &emitter{s: s, b: NewBuilder(), marked: make([]bool, len(s.code.Insts)), from: from}
}

// mark notes what roots need.
func (e *emitter) mark(roots ...Value) {
	top := None
	for _, v := range roots {
		if v != None {
			e.marked[v], top = true, max(top, v)
		}
	}
	for v := top; v >= 0; v-- {
		if !e.marked[v] {
			continue
		}
		if _, ready := e.from(v); ready {
			continue
		}
		for _, u := range e.s.code.Insts[v].Uses() {
			e.marked[u] = true
		}
	}
}

// operand returns the operand of the new code that comes from a place.
func (e *emitter) operand(p Place, d tensor.DType) int {
	for k, have := range e.places {
		if have == p {
			return k
		}
	}
	e.places = append(e.places, p)
	e.b.code.In = append(e.b.code.In, d)
	return len(e.places) - 1
}

// emit makes what is marked and returns the new values.
func (e *emitter) emit() []Value {
	c := e.s.code
	at := make([]Value, len(c.Insts))
	for v, i := range c.Insts {
		at[v] = None
		if !e.marked[v] {
			continue
		}
		if p, ready := e.from(Value(v)); ready {
			at[v] = e.b.Load(e.operand(p, i.DType))
			continue
		}
		switch i.Op {
		case Load:
			at[v] = e.b.load(e.operand(Place{Kind: AtOperand, N: int(i.A)}, c.In[i.A]), i.Imm)
			continue
		case Call:
			f := c.Funcs[i.Imm]
			at[v] = e.b.Call(f, i.DType, []Value{at[i.A], at[i.B], at[i.C]}[:f.Args]...)
			continue
		}
		for _, u := range []*Value{&i.A, &i.B, &i.C}[:i.Op.Args()] {
			*u = at[*u]
		}
		at[v] = e.b.Make(i)
	}
	return at
}

// afterwards makes what is computed once a row after sweep k.
func (s *splitter) afterwards(k int) error {
	e := s.emitter(func(v Value) (Place, bool) {
		i := s.code.Insts[v]
		if i.Op == Reduce || s.level[v] >= 0 && s.level[v] < k {
			return s.known(v), true
		}
		return Place{}, false
	})
	var outs []Output
	var places []Place
	for o, out := range s.code.Out {
		if !s.Whole[o] && s.outLevel(o) == k {
			e.mark(out.Re, out.Im)
			outs, places = append(outs, out), append(places, Place{Kind: AtOutput, N: o})
		}
	}
	for _, v := range s.after[k] {
		e.mark(v)
		outs = append(outs, Output{DType: s.code.Insts[v].DType, Re: v, Im: None})
		places = append(places, Place{Kind: AtNumber, N: s.number[v]})
	}
	if len(outs) == 0 {
		return nil
	}
	at := e.emit()
	for n := range outs {
		if outs[n].Re = at[outs[n].Re]; outs[n].Im != None {
			outs[n].Im = at[outs[n].Im]
		}
	}
	c, err := e.b.Build(outs...)
	if err != nil {
		return err
	}
	s.Steps[k].After, s.Steps[k].AfterIn, s.Steps[k].AfterOut = c, e.places, places
	return nil
}

// sweep makes the loop over the row.
func (s *splitter) sweep(k int) error {
	e := s.emitter(func(v Value) (Place, bool) { return s.ready(v, k) })
	var outs []Output
	var places []Place
	for o, out := range s.code.Out {
		if s.Whole[o] && s.outLevel(o) == k && !s.own[o] {
			outs, places = append(outs, out), append(places, Place{Kind: AtOutput, N: o})
		}
	}
	for r, sweep := range s.made {
		if sweep != k || s.Rows[r].Out >= 0 && s.Rows[r].Scan == Invalid {
			continue
		}
		v := s.value(r)
		if s.Rows[r].Scan != Invalid {
			v = s.code.Insts[v].A
		}
		outs = append(outs, Output{DType: s.code.Insts[v].DType, Re: v, Im: None})
		places = append(places, Place{Kind: AtRow, N: r})
	}
	st := &s.Steps[k]
	stored := len(outs)
	for v, i := range s.code.Insts {
		if i.Op == Reduce && s.level[v] == k {
			outs, places = append(outs, Output{Re: i.A, Im: None}), append(places, Place{})
			st.Folds, st.Into = append(st.Folds, Fold{Op: Op(i.Imm)}), append(st.Into, s.known(Value(v)).N)
		}
	}
	if len(outs) == 0 {
		return nil
	}
	for _, o := range outs {
		s.keep(k, o.Re, o.Im)
	}
	for _, o := range outs {
		e.mark(o.Re, o.Im)
	}
	at := e.emit()
	for n := range outs {
		if outs[n].Re = at[outs[n].Re]; outs[n].Im != None {
			outs[n].Im = at[outs[n].Im]
		}
	}
	c, err := e.b.Build(outs...)
	if err != nil {
		return err
	}
	for n := range st.Folds {
		st.Folds[n].V = c.Out[stored+n].Re
	}
	st.Code, st.In, st.Out = c, e.places, places
	return nil
}

// ready returns the place from which sweep k loads a value rather than compute it.
func (s *splitter) ready(v Value, k int) (Place, bool) {
	if !s.stream[v] {
		if s.level[v] < 0 {
			return Place{}, false
		}
		return s.known(v), true
	}
	r := s.row[v]
	if r < 0 || s.made[r] >= k {
		return Place{}, false
	}
	s.last[r] = max(s.last[r], k)
	return Place{Kind: AtRow, N: r}, true
}

// value returns what row r holds.
func (s *splitter) value(r int) Value {
	for v, have := range s.row {
		if have == r {
			return Value(v)
		}
	}
	return None
}

// host gives rows the memory of outputs that are not written before.
func (s *splitter) host() {
	taken := make([]bool, len(s.code.Out))
	for _, r := range s.Rows {
		if r.Out >= 0 {
			taken[r.Out] = true
		}
	}
	for r := range s.Rows {
		for o, out := range s.code.Out {
			if s.Rows[r].Out >= 0 {
				break
			}
			if s.Whole[o] && !taken[o] && s.outLevel(o) >= s.last[r] && out.DType.Size() == s.Rows[r].DType.Size() {
				s.Rows[r].Out, taken[o] = o, true
			}
		}
	}
}
