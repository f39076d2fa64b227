// Command serveload sends inference requests to a server of the Open Inference Protocol from many clients, and prints
// throughput, latencies, errors and wrong results as JSON. It first sends each of its inputs alone; later results must
// have the same bits.
//
//	go run ./scripts/serveload -url http://127.0.0.1:8000/v2/models/resnet18 -clients 64 -for 5m -dims 1,3,224,224
package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// distinctInputs is the number of different requests.
const distinctInputs = 16

// report is the printed document. Times are in milliseconds.
type report struct {
	Clients, Requests, Errors, Wrong int
	RowsPerSecond, P50, P99, Longest float64
	FirstError                       string `json:",omitempty"`
}

func main() {
	log.SetFlags(0)
	url := flag.String("url", "http://127.0.0.1:8000/v2/models/model", "the URL of the model")
	clients := flag.Int("clients", 64, "the number of clients")
	duration := flag.Duration("for", time.Minute, "the time of the measurement")
	dims := flag.String("dims", "1,3,224,224", "the shape of the model's only input, which is float32")
	flag.Parse()
	transport := &http.Transport{MaxIdleConnsPerHost: *clients}
	http.DefaultClient.Transport = transport
	bodies, headerLength, err := requests(*url, *dims)
	if err != nil {
		log.Fatal(err)
	}
	want := make([][]byte, len(bodies))
	for i := range bodies {
		if want[i], err = infer(*url, bodies[i], headerLength); err != nil {
			log.Fatal(err)
		}
	}
	log.Print("measuring") // scripts/serve_soak.py waits for this line
	r := measure(*url, bodies, headerLength, want, *clients, *duration)
	rows, _, _ := strings.Cut(*dims, ",")
	n, _ := strconv.Atoi(rows)
	r.RowsPerSecond *= float64(n)
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		log.Fatal(err)
	}
}

// requests returns bodies with random data for the only input of a model, and the length of their JSON headers.
func requests(url, dims string) (bodies [][]byte, headerLength int, err error) {
	r, err := http.Get(url)
	if err != nil {
		return nil, 0, err
	}
	defer r.Body.Close()
	var model struct{ Inputs []struct{ Name string } }
	if err := json.NewDecoder(r.Body).Decode(&model); err != nil || len(model.Inputs) != 1 {
		return nil, 0, fmt.Errorf("%s: want a model with one input: %v", url, err)
	}
	elements := 1
	for s := range strings.SplitSeq(dims, ",") {
		n, err := strconv.Atoi(s)
		if err != nil {
			return nil, 0, err
		}
		elements *= n
	}
	text := fmt.Sprintf(`{"inputs":[{"name":%q,"datatype":"FP32","shape":[%s],"parameters":{"binary_data_size":%d}}],`+
		`"parameters":{"binary_data_output":true}}`, model.Inputs[0].Name, dims, 4*elements)
	random := rand.New(rand.NewPCG(1, 2))
	for range distinctInputs {
		data := make([]float32, elements)
		for i := range data {
			data[i] = 2*random.Float32() - 1
		}
		body, err := binary.Append([]byte(text), binary.LittleEndian, data)
		if err != nil {
			return nil, 0, err
		}
		bodies = append(bodies, body)
	}
	return bodies, len(text), nil
}

// infer sends one request and returns the body of the response. headerLength is the length of the JSON header in body.
func infer(url string, body []byte, headerLength int) ([]byte, error) {
	request, err := http.NewRequest("POST", url+"/infer", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Inference-Header-Content-Length", strconv.Itoa(headerLength))
	r, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", r.Status, text)
	}
	return text, err
}

// measure sends requests until the time is over.
func measure(url string, bodies [][]byte, headerLength int, want [][]byte, clients int,
	limit time.Duration) report {
	r := report{Clients: clients}
	var lock sync.Mutex
	var times []time.Duration
	var group sync.WaitGroup
	start := time.Now()
	for c := range clients {
		group.Go(func() {
			for i := c; time.Since(start) < limit; i++ {
				began, k := time.Now(), i%len(bodies)
				got, err := infer(url, bodies[k], headerLength)
				took := time.Since(began)
				lock.Lock()
				switch {
				case err != nil:
					if r.Errors++; r.FirstError == "" {
						r.FirstError = err.Error()
					}
				case !bytes.Equal(got, want[k]):
					r.Wrong++
				default:
					times = append(times, took)
				}
				lock.Unlock()
			}
		})
	}
	group.Wait()
	elapsed := time.Since(start)
	slices.Sort(times)
	if r.Requests = len(times); r.Requests > 0 {
		quantile := func(share float64) float64 { return times[int(share*float64(len(times)-1))].Seconds() * 1e3 }
		r.RowsPerSecond, r.P50, r.P99, r.Longest = float64(len(times))/elapsed.Seconds(), quantile(0.5),
			quantile(0.99), quantile(1)
	}
	return r
}
