package graph_test

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/graphtest"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

func ptr[T any](v T) *T { return &v }

func defaults() graphtest.EveryAttrs {
	return graphtest.EveryAttrs{Int: 3, Float: 0.5, Text: "a", Ints: []int{1, 2}, Number: tensor.IntScalar(1),
		Pair: []int{0, 0}}
}

func TestSchemaDecodes(t *testing.T) {
	s := graph.SchemaOf[*graphtest.EveryAttrs]()
	for _, c := range []struct {
		name  string
		given graph.Attrs
		want  func(*graphtest.EveryAttrs)
	}{
		{"defaults", nil, func(*graphtest.EveryAttrs) {}},
		{"json", graph.Attrs{"flag": true, "int": int64(5), "float": int64(2), "text": "b", "ints": []any{int64(4)},
			"floats": []any{0.5, int64(1)}, "bools": []any{true, false}},
			func(a *graphtest.EveryAttrs) {
				a.Flag, a.Int, a.Float, a.Text, a.Ints, a.Floats, a.Bools = true, 5, 2, "b", []int{4}, []float64{0.5, 1},
					[]bool{true, false}
			}},
		{"go", graph.Attrs{"int": 5, "ints": []int{4, 5}, "dtype": tensor.Int8, "memory_format": tensor.ChannelsLast,
			"number": 2.5},
			func(a *graphtest.EveryAttrs) {
				a.Int, a.Ints, a.DType, a.Format, a.Number = 5, []int{4, 5}, tensor.Int8, tensor.ChannelsLast,
					tensor.FloatScalar(2.5)
			}},
		{"names", graph.Attrs{"dtype": "bfloat16", "memory_format": "channels_last_format"},
			func(a *graphtest.EveryAttrs) { a.DType, a.Format = tensor.BFloat16, tensor.ChannelsLast }},
		{"pointers", graph.Attrs{"maybe_int": int64(0), "maybe_float": 1.5, "maybe_bool": false},
			func(a *graphtest.EveryAttrs) { a.MaybeI, a.MaybeF, a.MaybeB = ptr(0), ptr(1.5), ptr(false) }},
		{"nulls", graph.Attrs{"maybe_int": nil, "dtype": nil, "floats": nil}, func(*graphtest.EveryAttrs) {}},
		{"one for a list", graph.Attrs{"ints": int64(7), "pair": int64(2)}, func(a *graphtest.EveryAttrs) {
			a.Ints, a.Pair = []int{7}, []int{2, 2}
		}},
		{"symbols", graph.Attrs{"int": "N", "pair": []any{"N", int64(1)}}, func(a *graphtest.EveryAttrs) {
			a.Int, a.Pair = 12, []int{12, 1}
		}},
		{"whole float", graph.Attrs{"int": 4.0}, func(a *graphtest.EveryAttrs) { a.Int = 4 }},
		{"infinite", graph.Attrs{"number": "-Infinity", "float": "inf"}, func(a *graphtest.EveryAttrs) {
			a.Number, a.Float = tensor.FloatScalar(math.Inf(-1)), math.Inf(1)
		}},
		{"complex", graph.Attrs{"number": []any{int64(1), 2.5}}, func(a *graphtest.EveryAttrs) {
			a.Number = tensor.ComplexScalar(1 + 2.5i)
		}},
		{"as Python prints it", graph.Attrs{"number": "(1-2.5e1j)"}, func(a *graphtest.EveryAttrs) {
			a.Number = tensor.ComplexScalar(1 - 25i)
		}},
		{"imaginary", graph.Attrs{"number": "-2j"}, func(a *graphtest.EveryAttrs) { a.Number = tensor.ComplexScalar(-2i) }},
		{"complex64", graph.Attrs{"number": complex64(3i)}, func(a *graphtest.EveryAttrs) {
			a.Number = tensor.ComplexScalar(3i)
		}},
	} {
		want := defaults()
		c.want(&want)
		got, err := s.Decode(c.given, map[string]sym.Int{"N": sym.Of(12)})
		if err != nil || !reflect.DeepEqual(got, &want) {
			t.Errorf("%s: got %+v, %v, want %+v", c.name, got, err, want)
		}
	}
}

func TestSchemaRefuses(t *testing.T) {
	s := graph.SchemaOf[graphtest.EveryAttrs]()
	for want, given := range map[string]graph.Attrs{
		`unknown attribute "dims": the op has flag, int,`:                               {"dims": 1},
		`attribute "flag": want true or false, got 1`:                                   {"flag": int64(1)},
		`attribute "int": want an integer, got 1.5`:                                     {"int": 1.5},
		`attribute "int": want an integer, got 1e+300`:                                  {"int": 1e300},
		`attribute "int": want an integer, got true`:                                    {"int": true},
		`attribute "int": want an integer, got "M", which is not a symbol of the graph`: {"int": "M"},
		`attribute "int": the value must not be null`:                                   {"int": nil},
		`attribute "float": want a number, got "0x1p3"`:                                 {"float": "0x1p3"},
		`attribute "text": "c" is not one of a, b`:                                      {"text": "c"},
		`attribute "text": want a string, got 1`:                                        {"text": int64(1)},
		`attribute "ints": want an integer or a list of integers, got a list`:           {"ints": []any{[]any{int64(1)}}},
		`attribute "ints": want an integer or a list of integers, got null`:             {"ints": []any{nil}},
		`attribute "pair": want 2 numbers, got 3`: {"pair": []any{int64(1), int64(2),
			int64(3)}},
		`attribute "dtype": unknown dtype "float"`:                              {"dtype": "float"},
		`attribute "dtype": want the name of a dtype or null, got 3`:            {"dtype": int64(3)},
		`attribute "memory_format": unknown memory format`:                      {"memory_format": "nhwc"},
		`attribute "number": want a number, got "NaNa"`:                         {"number": "NaNa"},
		`attribute "bools": want true or false, a list of these or null, got 1`: {"bools": []any{int64(1)}},
		`attribute "maybe_float": want a number or null, got an object`:         {"maybe_float": map[string]any{}},
		`attribute "int": 140737488355329 is out of range: integers from -2^47`: {"int": int64(1<<47 + 1)},
		`attribute "int": -9223372036854775808 is out of range`:                 {"int": int64(math.MinInt64)},
		`attribute "ints": 9223372036854775807 is out of range`:                 {"ints": []any{int64(1), int64(math.MaxInt64)}},
		`attribute "pair": 4611686018427387904 is out of range`:                 {"pair": int64(1 << 62)},
		`attribute "maybe_int": 140737488355329 is out of range`:                {"maybe_int": int64(1<<47 + 1)},
	} {
		_, err := s.Decode(given, map[string]sym.Int{"N": sym.Of(12)})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v: got %v, want %s", given, err, want)
		}
	}
}

func TestAcceptedValues(t *testing.T) {
	type attrs struct {
		Parts     graph.IntOrInts `attr:"parts" default:"1"`
		Condition sym.Bool        `attr:"condition"`
	}
	for want, given := range map[string]graph.Attrs{
		`attribute "parts": want an integer or a list of integers, got "N"`: {"parts": "N", "condition": true},
		`attribute "condition": want a comparison of sizes, got 1`:          {"condition": int64(1)},
	} {
		_, err := graph.SchemaOf[attrs]().Decode(given, nil)
		require.ErrorContains(t, err, want)
	}
}

type rangeAttrs struct {
	Sizes   []sym.Int          `attr:"sizes" default:""`
	Padding graph.IntsOrWord   `attr:"padding" default:"0"`
	Parts   graph.IntOrInts    `attr:"parts" default:"1"`
	Step    *sym.Int           `attr:"step" default:"none"`
	End     *sym.Int           `attr:"end" default:"none" range:"int64"`
	Seeds   []int              `attr:"seeds" default:"" range:"int64"`
	One     graph.IntOrInts    `attr:"one" default:"1" range:"int64"`
	Fill    graph.NumberOrSize `attr:"fill" default:"0"`
	Bound   tensor.Scalar      `attr:"bound" default:"0"`
}

func TestIntegersAreBoundedUnlessRangeSaysInt64(t *testing.T) {
	s := graph.SchemaOf[rangeAttrs]()
	for _, n := range []int64{1 << 47, -1 << 47, 1<<47 + 1, -1<<47 - 1, 1 << 62, math.MaxInt64, math.MinInt64} {
		for _, f := range s.Fields {
			for _, v := range []any{n, []any{int64(1), n}} {
				if _, isList := v.([]any); isList && !strings.Contains(f.Type, "[]") {
					continue
				}
				_, err := s.Decode(graph.Attrs{f.Name: v}, nil)
				if within := f.AnyInt || f.Type == "number" || n <= 1<<47 && n >= -1<<47; within != (err == nil) {
					t.Errorf("%s = %v: got %v", f.Name, v, err)
				}
			}
		}
	}
}

func TestSchemaOfPanicsOnMalformedTags(t *testing.T) {
	for name, f := range map[string]func(){
		"no tag": func() { graph.SchemaOf[struct{ A int }]() },
		"bad default": func() {
			graph.SchemaOf[struct {
				A int `attr:"a" default:"x"`
			}]()
		},
		"bad range": func() {
			graph.SchemaOf[struct {
				A int `attr:"a" range:"int32"`
			}]()
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

func TestSchemaDocumentsTypes(t *testing.T) {
	var got []string
	for _, f := range graph.SchemaOf[graphtest.EveryAttrs]().Fields {
		got = append(got, f.Type)
	}
	want := "bool int float string int[] float[] bool[] int? float? bool? number dtype memory_format int[]"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("got %s, want %s", s, want)
	}
}

type paddingAttrs struct {
	Padding graph.IntsOrWord `attr:"padding" default:"0" words:"same|valid"`
}

func TestSchemaWords(t *testing.T) {
	s := graph.SchemaOf[paddingAttrs]()
	if f := s.Fields[0]; f.Type != "int[]|same|valid" {
		t.Errorf("type %s", f.Type)
	}
	for _, c := range []struct {
		given any
		want  graph.IntsOrWord
	}{
		{int64(2), graph.IntsOrWord{Ints: sym.Ints(2)}},
		{[]any{int64(1), "N"}, graph.IntsOrWord{Ints: sym.Ints(1, 12)}},
		{[]int{3, 4}, graph.IntsOrWord{Ints: sym.Ints(3, 4)}},
		{"N", graph.IntsOrWord{Ints: sym.Ints(12)}},
		{"same", graph.IntsOrWord{Word: "same"}},
	} {
		got, err := s.Decode(graph.Attrs{"padding": c.given}, map[string]sym.Int{"N": sym.Of(12)})
		if err != nil || !reflect.DeepEqual(got, &paddingAttrs{c.want}) {
			t.Errorf("%v: got %+v, %v, want %+v", c.given, got, err, c.want)
		}
	}
	for _, bad := range []any{1.5, nil, "M", "1", []any{"same"}} {
		if got, err := s.Decode(graph.Attrs{"padding": bad}, nil); err == nil {
			t.Errorf("%v: got %+v", bad, got)
		}
	}
}

// anyAttrs takes numbers of any name; its Check refuses a text that is too long.
type anyAttrs struct {
	Text    string                   `attr:"text"`
	Numbers map[string]tensor.Scalar `attr:"*" doc:"a number"`
}

func (a *anyAttrs) Check() error {
	if len(a.Text) > 3 {
		return &graph.AttrError{Attr: "text", Err: errors.New("too long")}
	}
	return nil
}

// TestSchemaOfAnyName takes attributes that no field is for, and asks the struct whether they fit together.
func TestSchemaOfAnyName(t *testing.T) {
	s := graph.SchemaOf[anyAttrs]()
	if len(s.Fields) != 1 || s.Additional == nil || s.Additional.Doc != "a number" || s.Additional.Type != "number" {
		t.Fatalf("%+v", s)
	}
	a, err := s.Decode(graph.Attrs{"text": "a", "alpha": 0.5, "n": 2, "z": []any{int64(1), 2.5}}, nil)
	want := &anyAttrs{"a", map[string]tensor.Scalar{"alpha": tensor.FloatScalar(0.5), "n": tensor.IntScalar(2),
		"z": tensor.ComplexScalar(1 + 2.5i)}}
	if err != nil || !reflect.DeepEqual(a, want) {
		t.Errorf("got %+v, %v", a, err)
	}
	if a, err := s.Decode(graph.Attrs{"text": "a"}, nil); err != nil || a.(*anyAttrs).Numbers != nil {
		t.Errorf("got %+v, %v", a, err)
	}
	for _, c := range []struct {
		name  string
		value any
		want  string
	}{{"alpha", "big", `attribute "alpha": want a number, got "big"`}, {"alpha", nil, `attribute "alpha": the value must not be null`},
		{"alpha", []any{1, 2, 3}, `attribute "alpha": want a number, got a list`}, {"text", "abcd", "too long"}} {
		given := graph.Attrs{"text": "a"}
		given[c.name] = c.value
		_, err := s.Decode(given, nil)
		var wrong *graph.AttrError
		if !errors.As(err, &wrong) || wrong.Attr != c.name || err.Error() != c.want {
			t.Errorf("%v: got %v", given, err)
		}
	}
}
