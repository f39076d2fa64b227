package wcsp_test

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/passes/layout/wcsp/verify"
)

// TestFiles writes and reads problems and solutions.
func TestFiles(t *testing.T) {
	for seed := range uint64(300) {
		p := random(rand.New(rand.NewPCG(seed, 4)))
		p.Version = wcsp.Version
		if p.Factors == nil {
			p.Factors = []wcsp.Factor{}
		}
		for i := range p.Factors {
			if f := &p.Factors[i]; f.Scope == nil {
				f.Scope = []int{}
			}
		}
		var file bytes.Buffer
		if err := p.Write(&file); err != nil {
			t.Fatal(err)
		}
		q, err := wcsp.Read(&file)
		if err != nil || !reflect.DeepEqual(p, q) {
			t.Fatalf("problem %d: %v: %v was read as %v", seed, err, p, q)
		}
		s, err := wcsp.Exact.Solve(p, wcsp.Options{MaxTable: 3, TimeLimit: -1, Proof: true})
		if err != nil {
			continue
		}
		if err := s.Write(&file); err != nil {
			t.Fatal(err)
		}
		first := file.String()
		r, err := wcsp.ReadSolution(&file)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Write(&file); err != nil || file.String() != first {
			t.Errorf("problem %d: %v: %s was read as %s", seed, err, first, file.String())
		}
		file.Reset()
	}
}

// TestForbiddenIsNull holds the spelling in files.
func TestForbiddenIsNull(t *testing.T) {
	p := &wcsp.Problem{Variables: []wcsp.Variable{{Name: "x", Labels: []string{"a", "b"}}},
		Factors: []wcsp.Factor{{Scope: []int{0}, Costs: []int64{5, wcsp.Forbidden}}}}
	var file bytes.Buffer
	if err := p.Write(&file); err != nil {
		t.Fatal(err)
	}
	const want = `{"version":1,"variables":[{"name":"x","labels":["a","b"]}],"factors":[{"scope":[0],"costs":[5,null]}]}` + "\n"
	if file.String() != want {
		t.Errorf("%s is written, not %s", &file, want)
	}
}

// TestBadFiles reads what is no problem. Errors name the place.
func TestBadFiles(t *testing.T) {
	variables := `{"version":1,"variables":[{"name":"x","labels":["a","b"]},{"name":"y","labels":["a","b","c"]}],"factors":[`
	for _, c := range []struct{ text, says string }{
		{``, "byte 0"},
		{`{`, "unexpected EOF"},
		{`[]`, "cannot unmarshal array"},
		{`{"version":2}`, "version 2 is not supported"},
		{`{"version":1,"factor":[]}`, `unknown field "factor"`},
		{`{"version":1} x`, "unexpected data"},
		{`{"version":1,"variables":[{"name":"x","labels":[]}]}`, `variable 0 ("x") has no labels`},
		{variables + `{"scope":[2],"costs":[]}]}`, "factor 0: variable 2 does not exist"},
		{variables + `{"scope":[0],"costs":[1,2]},{"scope":[-1],"costs":[]}]}`, "factor 1: variable -1 does not exist"},
		{variables + `{"scope":[0,1,0],"costs":[]}]}`, "the limit is 2"},
		{variables + `{"scope":[1,1],"costs":[1,2,3,4,5,6,7,8,9]}]}`, "variable 1 occurs twice"},
		{variables + `{"scope":[0,1],"costs":[1,2,3,4,5]}]}`, "the number of costs, 5, does not match"},
		{variables + `{"scope":[],"costs":[]}]}`, "the number of costs, 0, does not match"},
		{variables + `{"scope":[0],"costs":[1,-2]}]}`, "cost 1 is -2"},
		{variables + `{"scope":[0],"costs":[1,2.5]}]}`, "2.5"},
		{variables + `{"scope":[0],"costs":[1,2305843009213693952]}]}`, "cost 1 is 2305843009213693952"},
		{variables + `{"scope":[0],"costs":[1,99999999999999999999]}]}`, "99999999999999999999"},
		{variables + `{"scope":[0],"costs":[0,2305843009213693948]},{"scope":[0],"costs":[0,9]}]}`, "add up to more"},
		{variables + `{"scope":["x"],"costs":[1,2]}]}`, "cannot unmarshal string"},
		{variables + `{"scope":[0],"costs":7}]}`, "cannot unmarshal number"},
	} {
		_, err := wcsp.Read(strings.NewReader(c.text))
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), "wcsp: ") {
			t.Errorf("%s: the error is %v, without %q", c.text, err, c.says)
		}
	}
	for _, text := range []string{``, `{"version":1,"label":[]}`, `{"version":3}`, `{"version":1}{}`,
		`{"version":1,"proof":{"root":{"steps":[{"variable":"x"}]}}}`} {
		if _, err := wcsp.ReadSolution(strings.NewReader(text)); err == nil {
			t.Errorf("%s is read as a solution", text)
		}
	}
}

// TestCost refuses labels that there are not.
func TestCost(t *testing.T) {
	p := pictures()
	if c, err := p.Cost([]int{0, 1}); err != nil || c != 50+40+25 {
		t.Errorf("the cost is %d, %v", c, err)
	}
	for _, labels := range [][]int{nil, {0}, {0, 2}, {-1, 0}, {0, 0, 0}} {
		if _, err := p.Cost(labels); err == nil {
			t.Errorf("labels %v have a cost", labels)
		}
	}
	p.Factors[0].Costs[0] = wcsp.Forbidden
	if c, err := p.Cost([]int{0, 1}); err != nil || c != wcsp.Forbidden {
		t.Errorf("what is forbidden costs %d, %v", c, err)
	}
}

// TestInfeasible names what forbids everything.
func TestInfeasible(t *testing.T) {
	p := pictures()
	p.Factors[1].Costs = []int64{wcsp.Forbidden, wcsp.Forbidden}
	_, err := wcsp.Exact.Solve(p, wcsp.Options{})
	if err == nil || err.Error() != "wcsp: no assignment is allowed: all costs of factor 1 are forbidden" {
		t.Error(err)
	}
	p = pictures()
	p.Factors[0].Costs = []int64{wcsp.Forbidden, 1}
	p.Factors[1].Costs = []int64{1, wcsp.Forbidden}
	p.Factors[2].Costs = []int64{1, 1, wcsp.Forbidden, 1}
	_, err = wcsp.Exact.Solve(p, wcsp.Options{})
	if err == nil || err.Error() !=
		`wcsp: no assignment is allowed: variable 0 ("conv1") has no label that the other variables allow` {
		t.Error(err)
	}
}

// FuzzRead reads any file as a problem and solves what is one, with next to no room or time: the proof must hold.
func FuzzRead(f *testing.F) {
	for seed := range uint64(20) {
		var file bytes.Buffer
		if err := random(rand.New(rand.NewPCG(seed, 5))).Write(&file); err != nil {
			f.Fatal(err)
		}
		f.Add(file.Bytes(), int(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte, table int) {
		p, err := wcsp.Read(bytes.NewReader(text))
		if err != nil || len(text) > 1<<14 {
			return
		}
		list, _, err := wcsp.KBest(p, 2, wcsp.Options{MaxTable: table, TimeLimit: time.Millisecond, Proof: true}, nil)
		if err != nil {
			return
		}
		if err := verify.Solution(t.Context(), p, list[0]); err != nil {
			t.Error(err)
		}
	})
}
