package tensor_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/graphrun/graphrun/tensor"
)

// scalarOf maps the plain numbers of the vectors.
var scalarOf = map[string]tensor.Scalar{
	"bool": tensor.BoolScalar(true), "int": tensor.IntScalar(2),
	"float": tensor.FloatScalar(2.5), "complex": tensor.ComplexScalar(1i),
}

// join adds an operand written as in the vectors: "d:float32" has dimensions, "z:" has
// none, "n:int" is a number.
func join(t interface{ Fatal(...any) }, p *tensor.Promotion, operand string) {
	kind, name, _ := strings.Cut(operand, ":")
	if kind == "n" {
		p.AddNumber(scalarOf[name])
		return
	}
	d, err := tensor.ParseDType(name)
	if err != nil {
		t.Fatal(err)
	}
	p.Add(d, map[string]int{"d": 1, "z": 0}[kind])
}

func TestResultTypeAgreesWithPyTorch(t *testing.T) {
	rows := load[[3]string](t, "promotion.json")
	if len(rows) < 400 {
		t.Fatalf("%d vectors: every pair of 28 operands should be there", len(rows))
	}
	for _, r := range rows {
		for _, order := range [][2]string{{r[0], r[1]}, {r[1], r[0]}} {
			var p tensor.Promotion
			join(t, &p, order[0])
			join(t, &p, order[1])
			if got, err := p.Result(); err != nil || got.String() != r[2] {
				t.Errorf("result_type(%s, %s) = %v, %v; want %s", order[0], order[1], got, err, r[2])
			}
		}
	}
}

func TestCanCastAgreesWithPyTorch(t *testing.T) {
	rows := load[[2]string](t, "cancast.json")
	for _, from := range rows {
		for j, to := range rows {
			want := from[1][j] == '1'
			if got := tensor.CanCast(dtype(t, from[0]), dtype(t, to[0])); got != want {
				t.Errorf("can_cast(%s, %s) = %v", from[0], to[0], got)
			}
		}
	}
}

// TestPromotionIgnoresOrder adds more operands than torch.result_type takes, in random orders.
func TestPromotionIgnoresOrder(t *testing.T) {
	var every []string
	for _, d := range tensor.DTypes() {
		if !d.IsBareUnsigned() {
			every = append(every, "d:"+d.String(), "z:"+d.String())
		}
	}
	every = append(every, "n:bool", "n:int", "n:float", "n:complex")
	rapid.Check(t, func(t *rapid.T) {
		ops := rapid.SliceOfN(rapid.SampledFrom(every), 1, 6).Draw(t, "operands")
		var a, b tensor.Promotion
		for _, o := range ops {
			join(t, &a, o)
		}
		for _, o := range rapid.Permutation(ops).Draw(t, "order") {
			join(t, &b, o)
		}
		x, err := a.Result()
		y, err2 := b.Result()
		if err != nil || err2 != nil || x != y {
			t.Fatalf("%v: %v %v, in another order %v %v", ops, x, err, y, err2)
		}
	})
}

// TestBareUnsigned checks PyTorch 2's rules, which the PyTorch release of the vectors lacks.
func TestBareUnsigned(t *testing.T) {
	const refuse = "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote "
	for _, c := range []struct{ a, b, want, err string }{
		{"d:uint16", "d:uint16", "uint16", ""},
		{"d:uint16", "d:float16", "float16", ""},
		{"d:bfloat16", "d:uint64", "bfloat16", ""},
		{"d:uint16", "n:int", "uint16", ""},
		{"d:uint16", "n:bool", "uint16", ""},
		{"d:uint32", "n:float", "float32", ""},
		{"d:uint32", "n:complex", "complex64", ""},
		{"d:uint32", "z:int64", "uint32", ""},
		{"d:uint16", "d:uint32", "", refuse + "UInt16 and UInt32"},
		{"d:uint16", "d:int64", "", refuse + "UInt16 and Long"},
		{"d:uint16", "d:complex64", "", refuse + "UInt16 and ComplexFloat"},
		{"d:bool", "z:uint64", "", refuse + "Bool and UInt64"},
	} {
		var p tensor.Promotion
		join(t, &p, c.a)
		join(t, &p, c.b)
		got, err := p.Result()
		if errText(err) != c.err || err == nil && got.String() != c.want {
			t.Errorf("result_type(%s, %s) = %v, %v", c.a, c.b, got, err)
		}
	}
}
