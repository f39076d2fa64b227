package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/cli/internal/catalogue"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/kernels"
)

type opsDoc struct {
	Version int               `json:"version"`
	Ops     []catalogue.OpDoc `json:"ops"`
}

// catalogued lists the names of all ops.
func catalogued() (names []string) {
	for _, o := range kernels.All() {
		names = append(names, o.Name)
	}
	return names
}

func namesOf(d opsDoc) (names []string) {
	for _, o := range d.Ops {
		names = append(names, o.Name)
	}
	return names
}

// TestOpsJSON holds the document to the table of ops.
func TestOpsJSON(t *testing.T) {
	doc := decode[opsDoc](t, succeed(t, "ops", "--json"))
	if doc.Version != 1 || !slices.Equal(namesOf(doc), catalogued()) {
		t.Fatalf("version %d, %v", doc.Version, namesOf(doc))
	}
	for i, o := range kernels.All() {
		d := doc.Ops[i]
		if d.Doc != o.Doc || d.Kind != o.Kind.String() || len(d.Operands) != len(o.Params) || len(d.Attributes) !=
			len(o.Schema.Fields) ||
			(d.Results == nil) != o.VariadicResults || len(d.DTypes) == 0 && len(o.Examples) > 0 && len(o.Params) > 0 {
			t.Errorf("%s: %+v", o.Name, d)
		}
		for k, f := range o.Schema.Fields {
			if a := d.Attributes[k]; a.Name != f.Name || a.Type != f.Type || a.Required != f.Required || f.Required &&
				a.Default != nil {
				t.Errorf("%s: %+v", o.Name, a)
			}
		}
	}
	one := decode[opsDoc](t, succeed(t, "ops", "topk", "scatter_reduce", "embedding", "--json"))
	topk, scatter, embedding := one.Ops[0], one.Ops[1], one.Ops[2]
	if *topk.Results != 2 || !slices.Equal(topk.Outputs, []string{"values", "indices"}) || !topk.Attributes[0].Required ||
		topk.Attributes[1].Default != -1.0 || topk.Attributes[2].Default != true {
		t.Errorf("%+v", topk)
	}
	if how := scatter.Attributes[1]; how.Name != "reduce" || !slices.Contains(how.Choices, "mean") {
		t.Errorf("%+v", scatter)
	}
	if ids := embedding.Operands[1]; !ids.Index || embedding.Operands[0].Index ||
		!slices.Equal(ids.DTypes, []string{"int32", "int64"}) {
		t.Errorf("%+v", embedding)
	}
}

func TestOpsFilter(t *testing.T) {
	all := decode[opsDoc](t, succeed(t, "ops", "--json"))
	for args, check := range map[string]func(o catalogue.OpDoc) bool{
		"conv*": func(o catalogue.OpDoc) bool { return strings.HasPrefix(o.Name, "conv") },
		"conv?d max_pool*": func(o catalogue.OpDoc) bool {
			return strings.HasPrefix(o.Name, "conv") && len(o.Name) == 6 || strings.HasPrefix(o.Name, "max_pool")
		},
		"--kind view": func(o catalogue.OpDoc) bool { return o.Kind == "view" },
		"--kind requires *2d": func(o catalogue.OpDoc) bool {
			return o.Kind == "requires" &&
				strings.HasSuffix(o.Name, "2d")
		},
		"--dtype complex": func(o catalogue.OpDoc) bool {
			return slices.Contains(o.DTypes, "complex64") && slices.Contains(o.DTypes, "complex128")
		},
		"--dtype uint16": func(o catalogue.OpDoc) bool { return slices.Contains(o.DTypes, "uint16") },
		"--search Window": func(o catalogue.OpDoc) bool {
			return strings.Contains(strings.ToLower(o.Name+" "+o.Doc),
				"window")
		},
	} {
		doc := decode[opsDoc](t, succeed(t, append([]string{"ops", "--json"}, strings.Fields(args)...)...))
		if len(doc.Ops) == 0 {
			t.Errorf("%s: nothing", args)
		}
		var want []string
		for _, o := range all.Ops {
			if check(o) {
				want = append(want, o.Name)
			}
		}
		got := namesOf(doc)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", args, got, want)
		}
	}
	list := succeed(t, "ops", "conv*")
	if strings.Count(list, "\n") != strings.Count(list, "\nconv")+1 || strings.Count(list, "\nconv") < 5 {
		t.Errorf("got\n%s", list)
	}
	pages := succeed(t, "ops", "relu", "add", "relu")
	if strings.Count(pages, "Layout: ") != 2 || strings.Index(pages, "relu(self)") > strings.Index(pages, "add(self") {
		t.Errorf("got\n%s", pages)
	}
	for args, want := range map[string]string{
		"ops zzz*":              `no op matches "zzz*"`,
		"ops [a":                "the pattern [a is invalid",
		"ops --kind pointwise":  "want one of follows, view, requires, own",
		"ops --dtype f12":       "want one of int, uint, half, float, complex",
		"ops --kind veiw":       "want one of follows, view, requires, own; did you mean view?",
		"ops --dtype flaot32":   "did you mean float32?",
		"ops add --kind view":   "no op matches",
		"ops --search xyzzyxyz": "no op matches",
		"ops add sofmax":        "did you mean softmax?",
	} {
		if r := call(t, strings.Fields(args)...); r.code != exit.CodeUsage || !strings.Contains(r.errors, want) {
			t.Errorf("%s: exit %d, %q", args, r.code, r.errors)
		}
	}
}

// TestOpsFormulas checks the formulas of pointwise ops, and the functions of the op that takes a formula.
func TestOpsFormulas(t *testing.T) {
	doc := decode[opsDoc](t, succeed(t, "ops", "add", "gelu", "conv2d", "pointwise", "--json"))
	add, gelu, conv, text := doc.Ops[0], doc.Ops[1], doc.Ops[2], doc.Ops[3]
	if !slices.ContainsFunc(add.Formulas, func(f catalogue.FormulaDoc) bool {
		return f.Expr == "x | y" && slices.Equal(f.DTypes, []string{"bool"})
	}) {
		t.Errorf("%+v", add.Formulas)
	}
	if len(gelu.Formulas) != 2 || !strings.Contains(gelu.Formulas[1].Expr, "tanh(") || conv.Formulas != nil ||
		conv.Functions != nil || conv.OtherAttributes != "" {
		t.Errorf("%+v\n%+v", gelu, conv)
	}
	i := slices.IndexFunc(text.Functions, func(f catalogue.FunctionDoc) bool { return f.Name == "softplus" })
	if text.OtherAttributes == "" || i < 0 || !slices.Equal(text.Functions[i].Params, []string{"x", "beta",
		"threshold"}) || text.Functions[i].Expr == "" {
		t.Errorf("%+v", text)
	}
	for name, want := range map[string]string{"sigmoid": "\n  1 / (1 + exp(-x))\n", "add": "\n  bool  ",
		"pointwise": "\n  atan2(x, y)\n", "rsqrt": "rsqrt(self)"} {
		if page := succeed(t, "ops", name); !strings.Contains(page, want) {
			t.Errorf("missing %q in\n%s", want, page)
		}
	}
}

func TestOpsDTypes(t *testing.T) {
	list := succeed(t, "ops")
	for name, want := range map[string]string{"add": "all", "conv2d": "int,half,float,complex",
		"bitwise_and": "bool,int,uint", "arange": "int,uint,half,float"} {
		found := false
		for line := range strings.Lines(list) {
			if f := strings.Fields(line); f[0] == name {
				found = f[2] == want
			}
		}
		if !found {
			t.Errorf("%s: no line with %s in\n%s", name, want, list)
		}
	}
	if got := succeed(t, "ops", "embedding"); !strings.Contains(got, "weight   tensor  all\n") ||
		!strings.Contains(got, "indices  tensor  int32,int64\n") {
		t.Errorf("got\n%s", got)
	}
}
