package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/prove"
	"github.com/graphrun/graphrun/internal/contiguity"
)

// TestProve compares the printed proofs with the committed ones in testdata.
func TestProve(t *testing.T) {
	for file, args := range map[string]string{
		"contiguous-1.txt": "contiguous --rank 1", "contiguous-3.txt": "contiguous --rank 3",
		"channels_last.txt": "channels_last", "no_overlap-2.txt": "no_overlap --rank 2",
		"list.txt": "",
	} {
		want, err := os.ReadFile(filepath.Join("testdata", "prove", file))
		if err != nil {
			t.Fatal(err)
		}
		if got := succeed(t, append([]string{"prove"}, strings.Fields(args)...)...); got != string(want) {
			t.Errorf("prove %s: got\n%s\nwant\n%s", args, got, want)
		}
	}
	parts := succeed(t, "prove", "non_overlapping_and_dense", "--rank", "5")
	for _, want := range []string{"\npart  ", "\ndense in the order of strides  true   true  ", "\nchannels_last_3d ",
		"\nProved: both forms agree on all 240 ways, "} {
		if !strings.Contains(parts, want) {
			t.Errorf("no %q in\n%s", want, parts)
		}
	}
}

// TestProveJSON holds the documents to their schema, and to the package that makes the proofs.
func TestProveJSON(t *testing.T) {
	type document struct {
		Version int `json:"version"`
		prove.Document
	}
	list := succeed(t, "prove", "--json")
	valid(t, "prove", list)
	if doc := decode[document](t, list); len(doc.Predicates) != len(contiguity.Predicates) || doc.ProofDoc != nil {
		t.Errorf("got\n%s", list)
	}
	text := succeed(t, "prove", "contiguous", "--rank", "3", "--json")
	valid(t, "prove", text)
	var doc struct {
		Formula  string
		Atoms    []string
		Ways     []prove.WayDoc
		Proved   bool
		Against  *prove.CounterexampleDoc `json:"counterexample"`
		Lemmas   []prove.InductionStepDoc `json:"induction"`
		ByParts  bool                     `json:"by_parts"`
		Rank     int
		Sentence string `json:"conclusion"`
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Formula != "Eq(x1*x2*x3, 0) | ((Eq(x2, 1) | Eq(y2, x3)) & (Eq(x3, 1) | Eq(y3, 1)) & "+
		"(Eq(x1, 1) | Eq(y1, x2*x3)))" || len(doc.Atoms) != 11 || len(doc.Ways) != 16 || len(doc.Lemmas) != 2 ||
		!doc.Proved || doc.Against != nil || doc.ByParts || doc.Rank != 3 || !strings.HasPrefix(doc.Sentence, "Proved: ") {
		t.Errorf("got\n%s", text)
	}
	for _, w := range doc.Ways {
		if w.Branching != w.Formula || w.Part != "" || w.If == "" || w.Path == "" {
			t.Errorf("%+v", w)
		}
	}
	// The notebook's way: sizes 3, 1, 5 and strides 5, any, 1.
	const six = "Eq(x2, 1) & Eq(y1, x3) & Eq(y3, 1) & Ne(x1, 1) & Ne(x3, 1) & Ne(x1*x2*x3, 0)"
	if !slices.ContainsFunc(doc.Ways, func(w prove.WayDoc) bool { return w.Path == six && w.Branching }) {
		t.Errorf("no way %s", six)
	}
	parts := succeed(t, "prove", "no_overlap", "--rank", "6", "--json")
	valid(t, "prove", parts)
	if !strings.Contains(parts, `"by_parts": true`) || !strings.Contains(parts, `"part": "no elements"`) {
		t.Errorf("got\n%s", parts)
	}
}

func TestProveCalls(t *testing.T) {
	folder := t.TempDir()
	for args, want := range map[string]string{
		"contigous --rank 3":                       "did you mean contiguous?",
		"contiguous":                               "prove contiguous requires --rank R, from 0 to 6",
		"contiguous --rank 7":                      "--rank 7: want 0 to 6",
		"contiguous --rank -1":                     "--rank -1: want 0 to 6",
		"contiguous --rank x":                      "--rank x: want a whole number",
		"channels_last --rank 3":                   "--rank 3: channels_last exists for rank 4 only",
		"contiguous no_overlap":                    "one predicate at most, got 2",
		"--rank 3":                                 "--rank and --smt require a predicate: contiguous, ",
		"--smt x.smt2":                             "--rank and --smt require a predicate: contiguous, ",
		"channels_last --smt /nonexistent/x.smt2":  "the folder /nonexistent does not exist",
		"channels_last --rank 4 --smt " + folder:   "the path is a folder, not a file",
		"non_overlaping_and_dense --rank 2":        "did you mean non_overlapping_and_dense?",
		"strides_like_channels_last_3d --rank 100": "exists for rank 5 only",
	} {
		r := call(t, append([]string{"prove"}, strings.Fields(args)...)...)
		if r.code != exit.CodeUsage || r.out != "" || !strings.Contains(r.errors, want) {
			t.Errorf("prove %s: exit %d, want %q in %q", args, r.code, want, r.errors)
		}
	}
	if out := call(t, "__complete", "prove", "chan").out; !strings.Contains(out, "channels_last_3d") {
		t.Errorf("got %q", out)
	}
}

// TestProveSMT holds the file to the text that the tests of sym read and decide; a solver is asked, where there is one.
func TestProveSMT(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.smt2")
	succeed(t, "prove", "contiguous", "--rank", "3", "--smt", path)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	p, err := contiguity.Prove(contiguity.Predicates[0], 3)
	if err != nil || p.Predicate.Name != "contiguous" || string(text) != p.SMT() {
		t.Fatalf("%v, %s\n%s", err, p.Predicate.Name, text)
	}
	solver, err := exec.LookPath("z3")
	if err != nil {
		return
	}
	if out, err := exec.Command(solver, "-T:60", path).CombinedOutput(); err != nil || string(out) != "unsat\n" {
		t.Errorf("%v: %s", err, out)
	}
}

// TestProveClaims proves, refutes and rejects claims.
func TestProveClaims(t *testing.T) {
	smt := filepath.Join(t.TempDir(), "claim.smt2")
	got := succeed(t, "prove", "contiguous => non_overlapping_and_dense", "--rank", "4", "--smt", smt)
	if !strings.Contains(got, "\nProved for rank 4: ") {
		t.Errorf("got\n%s", got)
	}
	if text, err := os.ReadFile(smt); err != nil || !bytes.Contains(text, []byte("(check-sat)")) {
		t.Errorf("%v: %s", err, text)
	}
	succeed(t, "prove", "channels_last => non_overlapping_and_dense") // the rank is that of channels_last
	r := call(t, "prove", "--json", "non_overlapping_and_dense => contiguous", "--rank", "2")
	valid(t, "prove", r.out)
	doc := decode[struct {
		Version int `json:"version"`
		prove.Document
	}](t, r.out)
	if r.code != exit.CodeFailed || doc.Claim == nil || doc.Claim.Proved || len(doc.Claim.Shape) != 2 {
		t.Errorf("exit %d:\n%s", r.code, r.out)
	}
	for claim, want := range map[string]string{
		"contiguos => channels_last": `column 1: want a predicate, got "contiguos"; did you mean contiguous?`,
		"contiguous => no_overlap":   "requires --rank R",
	} {
		if r := call(t, "prove", claim); r.code != exit.CodeUsage || !strings.Contains(r.errors, want) {
			t.Errorf("%s: exit %d: %s", claim, r.code, r.errors)
		}
	}
}
