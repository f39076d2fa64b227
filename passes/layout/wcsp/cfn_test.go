package wcsp_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// TestCFN compares the file of a small problem with its expected text.
func TestCFN(t *testing.T) {
	p := &wcsp.Problem{
		Variables: []wcsp.Variable{{Name: "conv 1/é", Labels: []string{"a", "b"}}, {Labels: []string{"c"}}},
		Factors: []wcsp.Factor{{Scope: []int{0}, Costs: []int64{5, wcsp.Forbidden}},
			{Scope: []int{1, 0}, Costs: []int64{7, 0}}, {Costs: []int64{9}}}}
	var file bytes.Buffer
	if err := p.WriteCFN(&file, "a b"); err != nil {
		t.Fatal(err)
	}
	const want = `{"problem":{"name":"p_a_b","mustbe":"<22"},
"variables":{
"x0_conv_1__":2,
"x1":1},
"functions":{
"f0":{"scope":["x0_conv_1__"],"costs":[5,22]},
"f1":{"scope":["x1","x0_conv_1__"],"costs":[7,0]},
"f2":{"scope":[],"costs":[9]}}}
`
	if file.String() != want {
		t.Errorf("%s is written, not %s", &file, want)
	}
	if !json.Valid(file.Bytes()) {
		t.Error("the file is not JSON")
	}
	p.Factors[0].Costs[0] = 512409557603043100
	if err := p.WriteCFN(&file, ""); err == nil || !strings.Contains(err.Error(), "toulbar2 supports at most") {
		t.Errorf("the error for large costs is %v", err)
	}
	if err := p.WriteCFN(nil, ""); err == nil {
		t.Error("a nil writer is accepted")
	}
	p.Factors[0].Scope[0] = 9
	if err := p.WriteCFN(&file, ""); err == nil {
		t.Error("an invalid problem is written")
	}
}

var optimum = regexp.MustCompile(`(?m)^Optimum: (\d+) in`)

// TestToulbar2 solves random problems with toulbar2, if it is installed, and compares the optima.
func TestToulbar2(t *testing.T) {
	binary, err := exec.LookPath("toulbar2")
	if err != nil {
		t.Skip("toulbar2 is not installed")
	}
	feasible := 0
	for seed := range uint64(60) {
		p := random(rand.New(rand.NewPCG(seed, 8)))
		path := filepath.Join(t.TempDir(), "p.cfn")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.WriteCFN(f, "random"); err != nil {
			t.Fatal(err)
		}
		f.Close()
		out, _ := exec.Command(binary, path).CombinedOutput()
		found := optimum.FindSubmatch(out)
		s, err := wcsp.Exact.Solve(p, wcsp.Options{})
		if err != nil {
			if found != nil {
				t.Errorf("problem %d: toulbar2 finds %s; we find %v", seed, found[1], err)
			}
			continue
		}
		feasible++
		if found == nil || string(found[1]) != strconv.FormatInt(s.Cost, 10) {
			t.Errorf("problem %d: the optimum is %d; toulbar2 prints %s", seed, s.Cost, out)
		}
	}
	if feasible < 20 {
		t.Errorf("only %d problems are feasible", feasible)
	}
}
