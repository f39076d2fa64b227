package kernels_test

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// TestCatalogue checks every op's contract and compares its examples with its reference.
func TestCatalogue(t *testing.T) {
	testsize.Long(t)
	for _, op := range kernels.All() {
		t.Run(op.Name, func(t *testing.T) {
			checkContract(t, op)
			for i, ex := range op.Examples {
				r := rand.New(rand.NewPCG(1, uint64(i)))
				draw := kerneltest.IndexValues(r)
				if op.Kind == graph.FollowsOperands {
					draw = kerneltest.NonzeroValues(r)
				}
				c, err := kerneltest.CallOf(op, ex.Attrs, ex.In)
				if err != nil {
					t.Fatalf("example %d: %v", i, err)
				}
				in := make([]*tensor.Tensor, len(ex.In))
				for k, m := range ex.In {
					if m.DType != tensor.Invalid {
						in[k] = kerneltest.Filled(m, draw)
					}
				}
				if op.Decompose != nil {
					kerneltest.CheckParts(t, op.Name, ex.Attrs, in)
					continue
				}
				if err := kerneltest.CheckCall(op, c, in); err != nil {
					t.Errorf("example %d: %v", i, err)
				}
			}
		})
	}
}

func checkContract(t *testing.T, op *graph.Op) {
	doc := []rune(op.Doc)
	switch {
	case len(doc) == 0:
		t.Error("has no doc")
	case !unicode.IsUpper(doc[0]) || doc[len(doc)-1] != '.':
		t.Errorf("the doc must begin with a capital and end with a period: %q", op.Doc)
	}
	if kernels.Lookup(op.Name) != op {
		t.Error("is not found by its name")
	}
	// Attributes that are graphs cannot be written while the catalogue is initialized; raise has no results.
	runsGraphs := op.Schema != nil && slices.ContainsFunc(op.Schema.Fields, func(f graph.Field) bool {
		return strings.Contains(f.Type, "graph")
	})
	hasExamples := len(op.Examples) > 0 || runsGraphs || op.Name == "raise"
	if op.Schema == nil || op.Infer == nil || op.Ref == nil && op.NoRef == "" || !hasExamples {
		t.Fatal("lacks a schema, Infer, Ref or examples")
	}
	if op.Compile == nil && op.Decompose == nil && op.RunDynamic == nil && op.TakenBranch == nil && op.Kind != graph.View {
		t.Error("lacks Compile")
	}
	if op.Pointwise != nil && op.Kind != graph.FollowsOperands {
		t.Errorf("has a pointwise part and kind %v", op.Kind)
	}
	for _, p := range op.Params {
		if p.Name == "" {
			t.Error("has a nameless operand")
		}
	}
	for _, name := range undocumented(op) {
		t.Errorf("has no doc of attribute %s: its tag has none, and the doc of the op does not mention `%s`", name, name)
	}
	for _, name := range namesOf(op) {
		if found := unquoted(op.Doc, name); found != "" {
			t.Errorf("has %s without backquotes in its doc: %q", name, found)
		}
	}
}

// undocumented returns the attributes that have no doc in their tag and are not mentioned in the doc of the op.
func undocumented(op *graph.Op) (names []string) {
	for _, f := range op.Schema.Fields {
		if f.Doc == "" && !strings.Contains(op.Doc, "`"+f.Name+"`") {
			names = append(names, f.Name)
		}
	}
	return names
}

// namesOf returns the names of the operands and attributes of an op.
func namesOf(op *graph.Op) (names []string) {
	for _, p := range op.Params {
		names = append(names, p.Name)
	}
	for _, f := range op.Schema.Fields {
		names = append(names, f.Name)
	}
	return names
}

// unquoted returns a place where a doc has the name of an operand or attribute without backquotes. It finds names with
// an underscore, which are no words of a sentence, outside formulas.
func unquoted(doc, name string) string {
	if !strings.Contains(name, "_") {
		return ""
	}
	return regexp.MustCompile("(^|[^`\\w*+/=^(\\[-] ?)\\b" + regexp.QuoteMeta(name) + "\\b($|[.,;:]| [^*+/=^-])").
		FindString(doc)
}

// TestDocs checks that the contract rejects docs that lack an attribute or backquotes.
func TestDocs(t *testing.T) {
	type attrs struct {
		First  int `attr:"first" doc:"first of two"`
		Second int `attr:"second"`
		Third  int `attr:"third"`
	}
	op := &graph.Op{Semantics: graph.Semantics{Doc: "Adds `second` to the third.", Schema: graph.SchemaOf[*attrs]()}}
	if names := undocumented(op); !slices.Equal(names, []string{"third"}) {
		t.Errorf("the attributes without doc are %v", names)
	}
	for _, doc := range []string{"With `zero_point`, q is x.", "(q - zero_point) * scale.", "w = zero_point + 1.",
		"[n, zero_point*h]", "zero_points."} {
		if found := unquoted(doc, "zero_point"); found != "" {
			t.Errorf("%q is rejected because of %q", doc, found)
		}
	}
	for _, doc := range []string{"zero_point is 0.", "Scale and zero_point.", "Adds zero_point, then",
		"A zero_point [n]"} {
		if unquoted(doc, "zero_point") == "" {
			t.Errorf("%q is accepted", doc)
		}
	}
}

// TestAttributeOfAnotherLibrary: the name of an attribute in numpy or ONNX gets the name in aten as a suggestion.
func TestAttributeOfAnotherLibrary(t *testing.T) {
	g := graph.New("names", kernels.Lookup)
	x := g.Input("x", tensor.Float32, 2, 3)
	g.Apply("softmax", graph.Attrs{"axis": 1}, x)
	require.ErrorContains(t, g.Err(), `unknown attribute "axis": the op has dim, dtype; did you mean dim?`)
}
