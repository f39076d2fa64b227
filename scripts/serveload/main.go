// Command serveload sends inference requests to a server of the Open Inference Protocol from many clients, and prints
// throughput, latencies, errors and wrong results as JSON. It first sends each of its inputs alone; later results must
// have the same bits. Each client has one connection and sends its next request when it has the last response. The
// model must have a single input, which is float32 or int64. Float32 data are random between -1 and 1; int64 data, for
// example token ids, are random from 0 to 999.
//
//	go run ./scripts/serveload -url http://127.0.0.1:8000/v2/models/resnet18 -clients 64 -for 5m -dims 1,3,224,224
package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
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
	Clients, Requests, Errors, Wrong int // Requests counts correct responses only
	RowsPerSecond, P50, P99, Longest float64
	FirstError                       string `json:",omitempty"`
}

func main() {
	log.SetFlags(0)
	address := flag.String("url", "http://127.0.0.1:8000/v2/models/model", "the URL of the model, with a port")
	clients := flag.Int("clients", 64, "the number of clients")
	duration := flag.Duration("for", time.Minute, "the time of the measurement")
	dims := flag.String("dims", "1,3,224,224", "the shape of the model's only input")
	flag.Parse()
	model, err := url.Parse(*address)
	if err != nil {
		log.Fatal(err)
	}
	requests, err := prepare(model, *dims)
	if err != nil {
		log.Fatal(err)
	}
	want, err := sendAlone(model.Host, requests)
	if err != nil {
		log.Fatal(err)
	}
	firstSize, _, _ := strings.Cut(*dims, ",")
	rowsPerRequest, _ := strconv.Atoi(firstSize) // prepare has checked dims
	log.Print("measuring")                       // scripts/serve_soak.py waits for this line
	result := measure(model.Host, requests, want, rowsPerRequest, *clients, *duration)
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		log.Fatal(err)
	}
}

// prepare returns requests with random data for the only input of a model, headers included.
func prepare(model *url.URL, dims string) (requests [][]byte, err error) {
	response, err := http.Get(model.String())
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var metadata struct {
		Inputs []struct{ Name, Datatype string }
	}
	if err := json.NewDecoder(response.Body).Decode(&metadata); err != nil {
		return nil, fmt.Errorf("%v: %w", model, err)
	}
	if len(metadata.Inputs) != 1 {
		return nil, fmt.Errorf("%v: the model has %d inputs, want 1", model, len(metadata.Inputs))
	}
	input := metadata.Inputs[0]
	if input.Datatype != "FP32" && input.Datatype != "INT64" {
		return nil, fmt.Errorf("%v: the input has datatype %s, want FP32 or INT64", model, input.Datatype)
	}
	elements := 1
	for text := range strings.SplitSeq(dims, ",") {
		size, err := strconv.Atoi(text)
		if err != nil {
			return nil, err
		}
		elements *= size
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range distinctInputs {
		data, err := randomData(random, input.Datatype, elements)
		if err != nil {
			return nil, err
		}
		text := fmt.Sprintf(`{"inputs":[{"name":%q,"datatype":%q,"shape":[%s],"parameters":{"binary_data_size":%d}}],`+
			`"parameters":{"binary_data_output":true}}`, input.Name, input.Datatype, dims, len(data))
		head := fmt.Sprintf("POST %s/infer HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n"+
			"Inference-Header-Content-Length: %d\r\n\r\n", model.EscapedPath(), model.Host, len(text)+len(data), len(text))
		requests = append(requests, slices.Concat([]byte(head+text), data))
	}
	return requests, nil
}

// randomData returns the little-endian bytes of random elements.
func randomData(random *rand.Rand, datatype string, elements int) ([]byte, error) {
	if datatype == "INT64" {
		data := make([]int64, elements)
		for i := range data {
			data[i] = random.Int64N(1000)
		}
		return binary.Append(nil, binary.LittleEndian, data)
	}
	data := make([]float32, elements)
	for i := range data {
		data[i] = 2*random.Float32() - 1
	}
	return binary.Append(nil, binary.LittleEndian, data)
}

// sendAlone sends each request alone and returns the bodies of the responses.
func sendAlone(address string, requests [][]byte) ([][]byte, error) {
	responses := make([][]byte, len(requests))
	first := client{address: address}
	for i, request := range requests {
		response, err := first.infer(request)
		if err != nil {
			return nil, err
		}
		responses[i] = bytes.Clone(response)
	}
	return responses, nil
}

// measure sends requests from the given number of clients until the time is over. want has the response of each
// request.
func measure(address string, requests, want [][]byte, rowsPerRequest, clients int, limit time.Duration) report {
	result := report{Clients: clients}
	var lock sync.Mutex
	var times []time.Duration
	var group sync.WaitGroup
	start := time.Now()
	for clientIndex := range clients {
		group.Go(func() {
			connection := client{address: address}
			for i := clientIndex; time.Since(start) < limit; i++ {
				began, requestIndex := time.Now(), i%len(requests)
				got, err := connection.infer(requests[requestIndex])
				took := time.Since(began)
				lock.Lock()
				switch {
				case err != nil:
					if result.Errors++; result.FirstError == "" {
						result.FirstError = err.Error()
					}
				case !bytes.Equal(got, want[requestIndex]):
					result.Wrong++
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
	if result.Requests = len(times); result.Requests > 0 {
		quantileMS := func(share float64) float64 { return times[int(share*float64(len(times)-1))].Seconds() * 1e3 }
		result.RowsPerSecond = float64(len(times)) / elapsed.Seconds() * float64(rowsPerRequest)
		result.P50, result.P99, result.Longest = quantileMS(0.5), quantileMS(0.99), quantileMS(1)
	}
	return result
}

// client is a connection to the server. Requests are prepared in advance, so that the client leaves the processor to a
// server on the same machine.
type client struct {
	address    string
	connection net.Conn // nil before the first request and after an error
	reader     *bufio.Reader
	response   bytes.Buffer // the body of the last response
}

// infer sends a request and returns the body of the response, which is valid until the next call.
func (c *client) infer(request []byte) (_ []byte, err error) {
	defer func() {
		if err != nil && c.connection != nil {
			c.connection.Close()
			c.connection = nil
		}
	}()
	if c.connection == nil {
		if c.connection, err = net.Dial("tcp", c.address); err != nil {
			return nil, err
		}
		c.reader = bufio.NewReader(c.connection)
	}
	if _, err := c.connection.Write(request); err != nil {
		return nil, err
	}
	response, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	c.response.Reset()
	if _, err := c.response.ReadFrom(response.Body); err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", response.Status, c.response.Bytes())
	}
	return c.response.Bytes(), nil
}
