package serve

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// longAnswers returns models whose answers are longer than their requests. An element is a number of 16 characters.
func longAnswers(t *testing.T) string {
	dir := t.TempDir()
	for name, node := range map[string]string{
		"long":   `{"name": "y", "op": "expand", "inputs": ["x"], "attrs": {"size": [3, 8000000]}}`,
		"medium": `{"name": "y", "op": "repeat", "inputs": ["x"], "attrs": {"repeats": [2000000]}}`,
		"wide":   `{"name": "y", "op": "expand", "inputs": ["x"], "attrs": {"size": [10, 9000000]}}`,
		"turned": `{"name": "r", "op": "repeat", "inputs": ["x"], "attrs": {"repeats": [2000, 5000]}},
			{"name": "y", "op": "permute", "inputs": ["r"], "attrs": {"dims": [1, 0]}}`,
	} {
		writeModel(t, filepath.Join(dir, name+".json"), `{"version": 1, "inputs": [{"name": "x", "dtype": "float32",
			"shape": [1]}], "nodes": [`+node+`], "outputs": ["y"]}`)
	}
	return dir
}

const number = "-1.1754944e-38"

// ask sends a request to one of longAnswers, with the element of x, and returns the response.
func ask(ctx context.Context, url, model string, binary bool) (*http.Response, error) {
	body := fmt.Sprintf(`{"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [%s]}],
		"parameters": {"binary_data_output": %t}}`, number, binary)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v2/models/"+model+"/infer", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(r)
}

// limitedServer is set in a process that serves longAnswers under a limit of its memory. The value is the directory.
const limitedServer = "GRAPHRUN_TEST_LIMITED_SERVER"

// limitBytes is the memory that the limited process may take beyond the memory of an idle server. A part of it is a
// reserve: see machine.Fits. The text of the long answer, of the medium ones together, and of the wide one exceed it.
const limitBytes = 480 << 20

// serveLimited serves until its standard input ends.
func serveLimited(t *testing.T, dir string) {
	debug.SetGCPercent(100) // as a server; tests collect garbage less often
	s := open(t, Options{}, dir)
	server := httptest.NewServer(s)
	var status []byte
	status, err := os.ReadFile("/proc/self/statm")
	require.NoError(t, err)
	pages, err := strconv.Atoi(strings.Fields(string(status))[0])
	require.NoError(t, err)
	limit := uint64(pages*os.Getpagesize() + limitBytes)
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: limit, Max: limit}))
	fmt.Println("serving", server.URL)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// TestLongAnswers: under a limit of memory, a server answers one client with a long answer, many clients with medium
// answers, and clients that want binary data. It ends its work for a client that leaves. Each answer is complete.
func TestLongAnswers(t *testing.T) {
	if dir := os.Getenv(limitedServer); dir != "" {
		serveLimited(t, dir)
		return
	}
	self, err := os.Executable()
	require.NoError(t, err)
	process := exec.CommandContext(t.Context(), self, "-test.run=^TestLongAnswers$")
	process.Env = append(os.Environ(), limitedServer+"="+longAnswers(t))
	stdin, err := process.StdinPipe()
	require.NoError(t, err)
	stdout, err := process.StdoutPipe()
	require.NoError(t, err)
	var messages strings.Builder
	process.Stderr = &messages
	require.NoError(t, process.Start())
	defer func() {
		stdin.Close()
		assert.NoError(t, process.Wait())
		if t.Failed() {
			t.Logf("the server: %.4000s", messages.String())
		}
	}()
	url := ""
	lines := bufio.NewScanner(stdout)
	for url == "" && lines.Scan() {
		url, _ = strings.CutPrefix(lines.Text(), "serving ")
	}
	if !strings.HasPrefix(url, "http") {
		t.Skip("no server under a limit of address space") // the race detector takes terabytes
	}
	go func() { _, _ = io.Copy(io.Discard, stdout) }()
	answered := func(model string, isBinary bool, elements int) (status int) {
		r, err := ask(t.Context(), url, model, isBinary)
		if !assert.NoError(t, err, model) {
			return 0
		}
		defer r.Body.Close()
		if r.StatusCode != http.StatusOK {
			text, _ := io.ReadAll(r.Body)
			assert.Equal(t, http.StatusServiceUnavailable, r.StatusCode, "%s: %s", model, text)
			return r.StatusCode
		}
		if isBinary {
			head, err := strconv.Atoi(r.Header.Get(jsonLengthHeader))
			assert.NoError(t, err)
			_, err = io.CopyN(io.Discard, r.Body, int64(head))
			assert.NoError(t, err)
			var want [4]byte
			binary.LittleEndian.PutUint32(want[:], math.Float32bits(-1.1754944e-38))
			requirePeriodic(t, r.Body, "", string(want[:]), elements, "")
		} else {
			text := bufio.NewReader(r.Body)
			_, err := text.ReadString('[') // "outputs":[
			assert.NoError(t, err)
			_, err = text.ReadString('[') // "shape":[
			assert.NoError(t, err)
			_, err = text.ReadString('[') // "data":[
			assert.NoError(t, err)
			requirePeriodic(t, text, number, ","+number, elements-1, "]}]}\n")
		}
		return r.StatusCode
	}
	assert.Equal(t, 200, answered("long", false, 24e6))
	assert.Equal(t, 200, answered("turned", false, 1e7))
	assert.Equal(t, 200, answered("turned", true, 1e7))
	assert.Equal(t, 200, answered("wide", true, 9e7)) // the answer has 360 MB
	var clients sync.WaitGroup
	for range 12 {
		clients.Go(func() { answered("medium", false, 2e6) })
	}
	clients.Wait()
	assert.Equal(t, 200, answered("medium", false, 2e6))
	assert.Equal(t, 200, answered("long", true, 24e6))
	for range 3 { // the rest of this answer takes five seconds of work
		r, err := ask(t.Context(), url, "wide", false)
		require.NoError(t, err)
		_, err = io.CopyN(io.Discard, r.Body, 1<<20)
		require.NoError(t, err)
		r.Body.Close()
	}
	assert.Eventually(t, func() bool { return failures(t, url, "wide") == "3" }, 10*time.Second, 10*time.Millisecond)

}

// failures returns the number of failed requests to a model.
func failures(t *testing.T, url, model string) string {
	r, err := http.Get(url + "/metrics")
	require.NoError(t, err)
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	found := regexp.MustCompile(`nv_inference_request_failure{model="` + model + `",version="1"} (\d+)`).FindSubmatch(text)
	require.NotNil(t, found, "%s", text)
	return string(found[1])
}

// requirePeriodic reads first, the given number of periods, last, and the end.
func requirePeriodic(t *testing.T, r io.Reader, first, period string, periods int, last string) {
	t.Helper()
	expect := func(want string) bool {
		got := make([]byte, len(want))
		n, err := io.ReadFull(r, got)
		return assert.NoError(t, err) && (string(got) == want || assert.Fail(t, "other text", "%.100q", got[:n]))
	}
	if !expect(first) {
		return
	}
	const block = 4000
	blockText := strings.Repeat(period, block)
	for ; periods > 0; periods -= block {
		if !expect(blockText[:min(periods, block)*len(period)]) {
			return
		}
	}
	if expect(last) {
		n, err := io.Copy(io.Discard, r)
		assert.NoError(t, err)
		assert.Zero(t, n, "bytes after the answer")
	}
}

// TestAnswerAtTimeout: an answer that takes too long is cut off, and the client can see that it is not complete.
func TestAnswerAtTimeout(t *testing.T) {
	outcomes := &outcomeHook{}
	s := open(t, Options{Timeout: 2 * time.Second, Hook: outcomes}, writeModel(t, filepath.Join(t.TempDir(), "m.json"),
		`{"version": 1, "inputs": [{"name": "x", "dtype": "int8", "shape": [1]}], "nodes": [{"name": "y", "op": "expand",
		"inputs": ["x"], "attrs": {"size": [100, 10000000]}}], "outputs": ["y"]}`))
	server := httptest.NewServer(s)
	defer server.Close()
	r, err := http.Post(server.URL+"/v2/models/m/infer", "application/json", strings.NewReader(
		`{"inputs": [{"name": "x", "shape": [1], "datatype": "INT8", "data": [-5]}]}`))
	require.NoError(t, err)
	defer r.Body.Close()
	_, err = io.Copy(io.Discard, r.Body)
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
	server.Close() // waits for the handler
	require.Len(t, outcomes.list, 1)
	assert.Equal(t, http.StatusServiceUnavailable, outcomes.list[0].Status)
	assert.ErrorContains(t, outcomes.list[0].Err, "the answer was cut off: ")
}
