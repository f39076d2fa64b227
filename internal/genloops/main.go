// Genloops generates the loops of package expr/interp that differ only in their operation. The body of a loop in Go can
// be parameterized only by a function, and a call for each element would make the loop several times slower.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/format"
	"log"
	"os"
	"slices"
	"strings"
	"text/template"
)

// loop describes a loop over elements.
type loop struct {
	Doc, Name string
	Types     string // type parameters; empty for a loop of bytes
	Elem      string // the type of elements
	Result    string // the type of results; empty for Elem
	Operands  string // the names of the operands: a, b, c
	Value     string // the stored expression, where $a is the element of operand a
	Before    string // statements before the loop
	Numbers   string // sets of operands for which there is a fast case: the operands of a set are single elements
	Commutes  bool   // a and b may be exchanged, so that b is the single element
	Single    bool   // not unrolled even for contiguous operands, because the loop body is long
	InTurn    bool   // unrolled elements are stored one by one, because four results would exceed the registers
	Twice     bool   // unrolled by two for operands that are not contiguous
}

const (
	number = "T realNumber"
	floats = "T float"
	words  = "T integer"
	widths = "T, W integer"

	bitwise = "T float, U word"
)

// bits is code that applies a bitwise operation to words of eight bytes, before a loop over the remaining elements.
const bits = `if size := int(unsafe.Sizeof(T(0))); size < 8 {
		done := wordwise(%s[uint64], d, a, b, n, size, by)
		if n -= done; n == 0 {
			return
		}
		d, a, b = unsafe.Add(d, done*sd), unsafe.Add(a, done*sa), unsafe.Add(b, done*sb)
	}`

const shiftMask = "mask := uint64(8*unsafe.Sizeof(T(0)) - 1)"

// Conversions, as in T($a*$b), prevent Go from fusing a product and a sum, which would round once instead of twice.
var loops = slices.Concat([]loop{
	{Name: "addV", Types: number, Operands: "ab", Value: "$a + $b", Twice: true},
	{Name: "subV", Types: number, Operands: "ab", Value: "$a - $b", Twice: true},
	{Name: "mulV", Types: number, Operands: "ab", Value: "$a * $b", Twice: true},
	{Name: "divV", Types: floats, Operands: "ab", Value: "$a / $b", Twice: true},
	{Name: "divInt", Types: widths, Operands: "ab", Value: "T(quotientOf(W($a), W($b)))", Single: true},
	{Name: "negV", Types: number, Operands: "a", Value: "-$a", Twice: true},
	{Doc: "clearSign clears the upper bit: the sign of floats.", Name: "clearSign", Types: "U word", Elem: "U",
		Operands: "a", Value: "$a & mask", Before: "mask := ^U(0) >> 1", Twice: true},
	{Name: "andV", Types: words, Operands: "ab", Value: "$a & $b", Before: fmt.Sprintf(bits, "andV"), Twice: true},
	{Name: "orV", Types: words, Operands: "ab", Value: "$a | $b", Before: fmt.Sprintf(bits, "orV"), Twice: true},
	{Name: "xorV", Types: words, Operands: "ab", Value: "$a ^ $b", Before: fmt.Sprintf(bits, "xorV"), Twice: true},
	{Name: "notV", Types: words, Operands: "a", Value: "^$a", Twice: true},
	{Name: "notBool", Elem: "uint8", Operands: "a", Value: "$a ^ 1", Twice: true},
	{Name: "shlV", Types: words, Operands: "ab", Value: "$a << (uint64($b) & mask)", Before: shiftMask, Twice: true},
	{Name: "shrV", Types: words, Operands: "ab", Value: "$a >> (uint64($b) & mask)", Before: shiftMask, Twice: true},

	{Doc: "minInt compares in a wider type W, which has conditional moves; bytes have none.", Name: "minInt",
		Types: widths, Operands: "ab", Value: "T(min(W($a), W($b)))", Numbers: "b", InTurn: true, Twice: true},
	{Name: "maxInt", Types: widths, Operands: "ab", Value: "T(max(W($a), W($b)))", Numbers: "b", InTurn: true,
		Twice: true},
	{Doc: "clampInt bounds a by b and c, as a minimum of a maximum.", Name: "clampInt", Types: widths, Operands: "abc",
		Value: "T(min(max(W($a), W($b)), W($c)))", Numbers: "bc", InTurn: true, Twice: true},

	{Name: "mulAdd", Types: number, Operands: "abc", Value: "T($a*$b) + $c", Numbers: "b bc", Commutes: true,
		InTurn: true, Twice: true},
	{Name: "mulSub", Types: number, Operands: "abc", Value: "T($a*$b) - $c", Numbers: "b", Commutes: true, InTurn: true,
		Twice: true},
	{Name: "subMul", Types: number, Operands: "abc", Value: "$c - T($a*$b)", Numbers: "b", Commutes: true},
	{Name: "addMul", Types: number, Operands: "abc", Value: "($a + $b) * $c"},
	{Name: "subThenMul", Types: number, Operands: "abc", Value: "($a - $b) * $c"},
	{Name: "mulMul", Types: floats, Operands: "abc", Value: "$a * $b * $c"},
	{Name: "mulDiv", Types: floats, Operands: "abc", Value: "$a * $b / $c"},
	{Name: "addDiv", Types: floats, Operands: "abc", Value: "($a + $b) / $c"},
	{Name: "divAdd", Types: floats, Operands: "abc", Value: "$c / ($a + $b)"},
	{Name: "subDiv", Types: floats, Operands: "abc", Value: "($a - $b) / $c"},

	// Peepholes.
	{Name: "addScaledMul", Types: number, Operands: "abce", Value: "$a + T(T($e*$b)*$c)", Numbers: "e"},
	{Name: "addScaledDiv", Types: floats, Operands: "abce", Value: "$a + T($e*$b) / $c", Numbers: "e"},
	{Doc: "interpolate is lerp for weights below a half.", Name: "interpolate", Types: floats, Operands: "abc",
		Value: "$a + T($c*($b-$a))", Numbers: "c"},
	{Name: "signV", Types: bitwise, Result: "U", Operands: "a", Value: "signOf[U]($a)"},
	{Name: "stepV", Types: bitwise, Result: "U", Operands: "ab", Value: "stepOf[U]($a, $b)"},
	{Name: "stepInt", Types: widths, Operands: "ab", Value: "T(stepOfInt(W($a), W($b)))"},
	{Name: "fracV", Types: floats, Operands: "a", Value: "$a - truncOf($a)"},
	{Name: "divTrunc", Types: floats, Operands: "ab", Value: "truncOf($a / $b)"},
	{Name: "mulRintDiv", Types: floats, Operands: "abc", Value: "rintOf($a*$b) / $c", Numbers: "bc"},
	{Name: "divRintMul", Types: floats, Operands: "abc", Value: "rintOf($a / $b) * $c", Numbers: "bc"},
	{Name: "modFloat", Types: bitwise, Operands: "ab", Value: "remainderOf[U]($a, $b)", Single: true},
	{Name: "floorDiv", Types: bitwise, Operands: "ab", Value: "floorRatio[U]($a, $b)", Single: true},
	{Name: "xlogy", Types: floats, Operands: "ab", Value: "xlogyOf($a, $b)", Single: true},
	{Name: "remInt", Types: widths, Operands: "ab", Value: "T(remOf(W($a), W($b)))", Single: true},
	{Name: "floorDivInt", Types: widths, Operands: "ab", Value: "T(floorOf(W($a), W($b)))", Single: true},
	{Name: "modInt", Types: words, Operands: "ab", Value: "modOf($a, $b)", Single: true},
	{Doc: "modShort is modInt for integers of at most 32 bits.", Name: "modShort", Types: widths, Operands: "ab",
		Value: "T(exactModOf(W($a), W($b)))", Single: true},
	{Name: "reluInt", Types: "T signedNumber", Operands: "a", Value: "$a &^ ($a >> (8*unsafe.Sizeof(T(0)) - 1))"},
	{Doc: "clampFromZero clamps a to the range from 0 to b.", Name: "clampFromZero", Types: "T, W signedNumber",
		Operands: "ab", Value: "T(min(W($a)&^(W($a)>>(8*unsafe.Sizeof(W(0))-1)), W($b)))", Numbers: "b", InTurn: true,
		Twice: true},
	{Name: "clampBetween", Types: bitwise, Result: "U", Operands: "abc", Value: "withinOf[U]($a, $b, $c)", Numbers: "bc"},
	{Name: "replaceNear", Types: bitwise, Result: "U", Operands: "abc", Value: "replaceNearOf[U]($a, $b, $c)",
		Numbers: "bc", InTurn: true},
	{Name: "replaceLow", Types: widths, Operands: "abc", Value: "T(replaceOf(W($a), W($b), W($c)))", Numbers: "bc"},
	{Doc: "shlShort uses the lowest 5 bits of the shift count.", Name: "shlShort", Types: "T short", Operands: "ab",
		Value: "T(int64($a) << (uint64($b) & 31))", Twice: true},
	{Name: "shrShort", Types: "T short", Operands: "ab", Value: "T(int64($a) >> (uint64($b) & 31))", Twice: true},
}, halfLoops)

// comparison describes a comparison loop, and a selection loop with the same comparison.
type comparison struct {
	Name, Choice, Op string
	NumberFirst      bool // has a fast case for a single element as the first operand; others exchange operands
}

var comparisons = []comparison{
	{"eqV", "chooseEq", "==", false},
	{"neV", "chooseNe", "!=", false},
	{"ltV", "chooseLt", "<", true},
	{"leV", "chooseLe", "<=", true},
}

// extreme describes a loop that selects the smaller or the greater of two floats.
type extreme struct {
	Name   string
	Second string // the comparison that selects the second operand if neither is NaN
	Doubt  string // the operand whose NaN makes Second wrong
	First  string // the condition that selects the first operand, for all values
}

var extremes = []extreme{
	{"minFloat", ">=", "y", "u < v || u != u"},
	{"maxFloat", "<=", "y", "u > v || u != u"},
	{"fminFloat", ">=", "x", "u < v || v != v"},
	{"fmaxFloat", "<=", "x", "u > v || v != v"},
}

const text = `// Code generated by genloops. DO NOT EDIT.

package interp

import (
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

{{range .Loops}}{{$e := .Elem}}
{{with .Doc}}// {{.}}
{{end -}}
func {{.Name}}{{with .Types}}[{{.}}]{{end}}(d, {{.Params}} unsafe.Pointer, n int, by *strides) {
	{{.Each "s%s" "d"}} := {{.Each "by.%s" "d"}}
	{{.Before}}
	{{if .Commutes}}if sa == 0 {
		a, b, sa, sb = b, a, sb, sa
	}
	{{end}}{{range .Sets}}if size := int(unsafe.Sizeof(*(*{{.Elem}})(d))); {{.DenseButNumbers}} {
		{{range .Constant}}{{.}}1 := *(*{{$e}})({{.}})
		{{end}}i := 0
		for last := n - 4; i <= last; i += 4 {
			d4, {{.ListDense "%[1]s4"}} := (*[4]{{.Result}})(unsafe.Add(d, i*size)),
				{{.ListDense (printf "(*[4]%s)(unsafe.Add(%%s, i*size))" .Elem)}}
			{{if .InTurn}}d4[0] = {{.OfNumbers "0"}}
			d4[1] = {{.OfNumbers "1"}}
			d4[2] = {{.OfNumbers "2"}}
			d4[3] = {{.OfNumbers "3"}}
			{{else}}d4[0], d4[1], d4[2], d4[3] = {{.OfNumbers "0"}}, {{.OfNumbers "1"}}, {{.OfNumbers "2"}}, {{.OfNumbers "3"}}
			{{end}}		}
		if n -= i; n == 0 {
			return
		}
		d, {{.ListDense "%s"}} = unsafe.Add(d, i*size), {{.ListDense "unsafe.Add(%s, i*size)"}}
	}
	{{end}}if size := int(unsafe.Sizeof(*(*{{.Elem}})(d))); {{.Dense}} {
		i := 0
		{{if not .Single}}for last := n - 4; i <= last; i += 4 {
			d4, {{.List "%[1]s4"}} := (*[4]{{.Result}})(unsafe.Add(d, i*size)),
				{{.List (printf "(*[4]%s)(unsafe.Add(%%s, i*size))" .Elem)}}
			{{if .InTurn}}d4[0] = {{.Of "0"}}
			d4[1] = {{.Of "1"}}
			d4[2] = {{.Of "2"}}
			d4[3] = {{.Of "3"}}
			{{else}}d4[0], d4[1], d4[2], d4[3] = {{.Of "0"}}, {{.Of "1"}}, {{.Of "2"}}, {{.Of "3"}}
			{{end}}		}
		{{end}}for ; i < n; i++ {
			*(*{{.Result}})(unsafe.Add(d, i*size)) = {{.At "unsafe.Add($, i*size)"}}
		}
		return
	}
	{{if .Twice}}for ; n > 2; n -= 2 {
		*(*{{.Result}})(d) = {{.At "$"}}
		*(*{{.Result}})(unsafe.Add(d, sd)) = {{.At "unsafe.Add($, s$)"}}
		{{.Each "%s" "d"}} = {{.Each "unsafe.Add(%[1]s, 2*s%[1]s)" "d"}}
	}
	{{end}}for ; ; {{.Each "%s" "d"}} = {{.Each "unsafe.Add(%[1]s, s%[1]s)" "d"}} {
		*(*{{.Result}})(d) = {{.At "$"}}
		if n--; n == 0 {
			return
		}
	}
}
{{end}}

// Comparisons write contiguous bools.
{{range .Comparisons}}
func {{.Name}}[T realNumber](d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	sa, sb, size := by.a, by.b, int(unsafe.Sizeof(T(0)))
	switch dst := unsafe.Slice((*bool)(d), n); {
	case sa == size && sb == size:
		i := 0
		for last := n - 4; i <= last; i += 4 {
			r, x, y := (*[4]bool)(unsafe.Add(d, i)), (*[4]T)(unsafe.Add(a, i*size)), (*[4]T)(unsafe.Add(b, i*size))
			r[0] = x[0] {{.Op}} y[0]
			r[1] = x[1] {{.Op}} y[1]
			r[2] = x[2] {{.Op}} y[2]
			r[3] = x[3] {{.Op}} y[3]
		}
		for ; i < n; i++ {
			dst[i] = *(*T)(unsafe.Add(a, i*size)) {{.Op}} *(*T)(unsafe.Add(b, i*size))
		}
	case sa == size && sb == 0:
		y, i := *(*T)(b), 0
		for last := n - 4; i <= last; i += 4 {
			r, x := (*[4]bool)(unsafe.Add(d, i)), (*[4]T)(unsafe.Add(a, i*size))
			r[0] = x[0] {{.Op}} y
			r[1] = x[1] {{.Op}} y
			r[2] = x[2] {{.Op}} y
			r[3] = x[3] {{.Op}} y
		}
		for ; i < n; i++ {
			dst[i] = *(*T)(unsafe.Add(a, i*size)) {{.Op}} y
		}
	{{if .NumberFirst}}case sa == 0 && sb == size:
		x, i := *(*T)(a), 0
		for last := n - 4; i <= last; i += 4 {
			r, y := (*[4]bool)(unsafe.Add(d, i)), (*[4]T)(unsafe.Add(b, i*size))
			r[0] = x {{.Op}} y[0]
			r[1] = x {{.Op}} y[1]
			r[2] = x {{.Op}} y[2]
			r[3] = x {{.Op}} y[3]
		}
		for ; i < n; i++ {
			dst[i] = x {{.Op}} *(*T)(unsafe.Add(b, i*size))
		}
	{{end}}default:
		for i := range dst {
			dst[i] = *(*T)(unsafe.Add(a, i*sa)) {{.Op}} *(*T)(unsafe.Add(b, i*sb))
		}
	}
}
{{end}}
// Selections are conditional moves of 64 bits, because bytes have no conditional move and a branch would be
// unpredictable.
{{range .Comparisons}}
func {{.Choice}}[T realNumber, U word](d, a, b, c, e, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb, sc, se := by.d, by.a, by.b, by.c, by.e
	for ; ; d, a, b, c, e = unsafe.Add(d, sd), unsafe.Add(a, sa), unsafe.Add(b, sb), unsafe.Add(c, sc), unsafe.Add(e, se) {
		x, y, u, v := *(*T)(a), *(*T)(b), uint64(*(*U)(c)), uint64(*(*U)(e))
		if x {{.Op}} y {
			v = u
		}
		*(*U)(d) = U(v)
		if n--; n == 0 {
			return
		}
	}
}
{{end}}
// Extremes differ from Go's min and max for two zeros: expressions select an operand by a comparison, and Go selects by
// the sign of the zero. Conditional moves of bits replace branches. For contiguous operands, one comparison suffices
// unless an operand is NaN, which the sum of four operands detects.
{{range .Extremes}}
func {{.Name}}[T float, U word](d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	size, i := int(unsafe.Sizeof(T(0))), 0
	if by.d == size && by.a == size && by.b == size {
		for last := n - 4; i <= last; i += 4 {
			x, y := (*[4]T)(unsafe.Add(a, i*size)), (*[4]T)(unsafe.Add(b, i*size))
			p, q, r := (*[4]U)(unsafe.Pointer(x)), (*[4]U)(unsafe.Pointer(y)), (*[4]U)(unsafe.Add(d, i*size))
			if sum := {{.Doubt}}[0] + {{.Doubt}}[1] + ({{.Doubt}}[2] + {{.Doubt}}[3]); sum != sum {
				{{.Name}}Any[T, U](unsafe.Pointer(r), unsafe.Pointer(x), unsafe.Pointer(y), 4, by)
				continue
			}
			r0, r1, r2, r3, s0, s1, s2, s3 := p[0], p[1], p[2], p[3], q[0], q[1], q[2], q[3]
			if x[0] {{.Second}} y[0] {
				r0 = s0
			}
			if x[1] {{.Second}} y[1] {
				r1 = s1
			}
			if x[2] {{.Second}} y[2] {
				r2 = s2
			}
			if x[3] {{.Second}} y[3] {
				r3 = s3
			}
			r[0], r[1], r[2], r[3] = r0, r1, r2, r3
		}
		if i == n {
			return
		}
	}
	{{.Name}}Any[T, U](unsafe.Add(d, i*by.d), unsafe.Add(a, i*by.a), unsafe.Add(b, i*by.b), n-i, by)
}

func {{.Name}}Any[T float, U word](d, a, b unsafe.Pointer, n int, by *strides) {
	sd, sa, sb := by.d, by.a, by.b
	{{if eq .Doubt "y"}}if size, v := int(unsafe.Sizeof(T(0))), *(*T)(b); sd == size && sa == size && sb == 0 && v == v {
		dst, x, second := contiguousElements[U](d, n), contiguousElements[T](a, n), *(*U)(b)
		bits := contiguousElements[U](a, n)[:len(dst)]
		x = x[:len(dst)]
		for i := range dst {
			u, r := x[i], bits[i]
			if u {{.Second}} v {
				r = second
			}
			dst[i] = r
		}
		return
	}
	{{end}}for ; ; d, a, b = unsafe.Add(d, sd), unsafe.Add(a, sa), unsafe.Add(b, sb) {
		u, v, p, r := *(*T)(a), *(*T)(b), *(*U)(a), *(*U)(b)
		{{range .Firsts}}if {{.}} {
			r = p
		}
		{{end}}*(*U)(d) = r
		if n--; n == 0 {
			return
		}
	}
}
{{end}}
`

// Firsts returns the conditions of First one by one, because Go would compile their disjunction to a branch.
func (e extreme) Firsts() []string { return strings.Split(e.First, " || ") }

// Params returns the address parameters after d.
func (l loop) Params() string {
	names := strings.Split("abceg", "")
	for i, name := range names {
		if !strings.Contains(l.Operands, name) {
			names[i] = "_"
		}
	}
	return strings.Join(names, ", ")
}

// Dense returns the condition that all operands and the result are contiguous.
func (l loop) Dense() string {
	var list []string
	for _, o := range "d" + l.Operands {
		list = append(list, "s"+string(o)+" == size")
	}
	return strings.Join(list, " && ")
}

// Of returns the expression for element k of four unrolled elements.
func (l loop) Of(k string) string {
	v := l.Value
	for _, o := range l.Operands {
		v = strings.ReplaceAll(v, "$"+string(o), fmt.Sprintf("%c4[%s]", o, k))
	}
	return v
}

// Sets returns a copy of the loop for each set of Numbers.
func (l loop) Sets() []loop {
	var list []loop
	for _, set := range strings.Fields(l.Numbers) {
		l.Numbers = set
		list = append(list, l)
	}
	return list
}

// OfNumbers is Of, but the operands of Numbers are single elements.
func (l loop) OfNumbers(k string) string {
	v := l.Of(k)
	for _, o := range l.Numbers {
		v = strings.ReplaceAll(v, fmt.Sprintf("%c4[%s]", o, k), string(o)+"1")
	}
	return v
}

// DenseButNumbers returns the condition that the operands of Numbers are single elements, and other operands and the
// result are contiguous.
func (l loop) DenseButNumbers() string {
	v := l.Dense()
	for _, o := range l.Numbers {
		v = strings.ReplaceAll(v, "s"+string(o)+" == size", "s"+string(o)+" == 0")
	}
	return v
}

// Constant returns the names of the operands of Numbers.
func (l loop) Constant() []string { return strings.Split(l.Numbers, "") }

// List returns a list with an item for each operand.
func (l loop) List(item string) string { return l.Each(item, "") }

// ListDense is List without the operands of Numbers.
func (l loop) ListDense(item string) string {
	l.Operands = strings.Map(func(o rune) rune {
		if strings.ContainsRune(l.Numbers, o) {
			return -1
		}
		return o
	}, l.Operands)
	return l.List(item)
}

// Each returns a list with an item for first, which is "d" or empty, and for each operand.
func (l loop) Each(item, first string) string {
	var list []string
	for _, o := range first + l.Operands {
		list = append(list, fmt.Sprintf(item, string(o)))
	}
	return strings.Join(list, ", ")
}

// At returns the expression for elements in memory. In address, $ is replaced by the name of the operand.
func (l loop) At(address string) string {
	v := l.Value
	for _, o := range l.Operands {
		at := strings.ReplaceAll(address, "$", string(o))
		v = strings.ReplaceAll(v, "$"+string(o), fmt.Sprintf("*(*%s)(%s)", l.Elem, at))
	}
	return v
}

func main() {
	out := flag.String("out", "", "the file to write")
	flag.Parse()
	for i := range loops {
		if loops[i].Elem == "" {
			loops[i].Elem = "T"
		}
		if loops[i].Result == "" {
			loops[i].Result = loops[i].Elem
		}
	}
	var b bytes.Buffer
	err := template.Must(template.New("loops").Parse(text)).Execute(&b, struct {
		Loops       []loop
		Comparisons []comparison
		Extremes    []extreme
	}{loops, comparisons, extremes})
	if err != nil {
		log.Fatal(err)
	}
	source, err := format.Source(b.Bytes())
	if err != nil {
		log.Fatalf("%v in\n%s", err, b.Bytes())
	}
	if err := os.WriteFile(*out, source, 0o644); err != nil {
		log.Fatal(err)
	}
}
