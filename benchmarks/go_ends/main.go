// The ends of a CRI call in Go, as the kubelet and a runtime are: they send PING frames and credits with most calls.
//
//	go_ends serve SOCKET
//	go_ends call SOCKET METHOD CALLS IN_FLIGHT
//
// Messages are bytes that are made once, so that a reply costs the runtime no more than gRPC does. The client warms up
// a connection, prints "ready", waits for a line, and prints the durations of its calls in seconds, as a JSON list.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
)

const (
	service        = "runtime.v1.RuntimeService"
	versionBytes   = 50
	listBytes      = 500 * 1000 // 500 containers as containerd describes them
	maxReplyBytes  = 16 << 20   // the kubelet's
	timeoutMinutes = 2          // the kubelet's
)

// raw sends *[]byte as it is.
type raw struct{}

func (raw) Name() string { return "proto" }

func (raw) Marshal(message any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*message.(*[]byte))}, nil
}

func (raw) Unmarshal(data mem.BufferSlice, message any) error {
	*message.(*[]byte) = data.Materialize()
	return nil
}

func answers(reply []byte) grpc.MethodHandler {
	return func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		var request []byte
		return &reply, decode(&request)
	}
}

func serve(path string) {
	listener, err := net.Listen("unix", path)
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(grpc.ForceServerCodecV2(raw{}))
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: service,
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{
			{MethodName: "Version", Handler: answers(make([]byte, versionBytes))},
			{MethodName: "ListContainers", Handler: answers(make([]byte, listBytes))},
		},
	}, nil)
	fmt.Println("ready")
	log.Fatal(server.Serve(listener))
}

// run makes these calls, so many at a time, and returns how long each took.
func run(client *grpc.ClientConn, method string, calls, inFlight int) []float64 {
	var next atomic.Int64
	var all sync.WaitGroup
	seconds := make([]float64, calls)
	for range inFlight {
		all.Add(1)
		go func() {
			defer all.Done()
			for number := next.Add(1) - 1; number < int64(calls); number = next.Add(1) - 1 {
				begun := time.Now()
				one(client, method)
				seconds[number] = time.Since(begun).Seconds()
			}
		}()
	}
	all.Wait()
	return seconds
}

func one(client *grpc.ClientConn, method string) {
	ctx, cancel := context.WithTimeout(context.Background(), timeoutMinutes*time.Minute)
	defer cancel()
	var request, reply []byte
	if err := client.Invoke(ctx, method, &request, &reply); err != nil {
		log.Fatal(err)
	}
}

func call(path, method string, calls, inFlight int) {
	client, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(raw{}), grpc.MaxCallRecvMsgSize(maxReplyBytes)))
	if err != nil {
		log.Fatal(err)
	}
	run(client, method, calls/10+1, inFlight)
	fmt.Println("ready")
	if !bufio.NewScanner(os.Stdin).Scan() {
		return
	}
	if err := json.NewEncoder(os.Stdout).Encode(run(client, method, calls, inFlight)); err != nil {
		log.Fatal(err)
	}
}

func main() {
	log.SetFlags(0)
	if len(os.Args) == 3 && os.Args[1] == "serve" {
		serve(os.Args[2])
	}
	if len(os.Args) != 6 || os.Args[1] != "call" {
		log.Fatal("usage: go_ends serve SOCKET | go_ends call SOCKET METHOD CALLS IN_FLIGHT")
	}
	calls, err := strconv.Atoi(os.Args[4])
	if err != nil {
		log.Fatal(err)
	}
	inFlight, err := strconv.Atoi(os.Args[5])
	if err != nil {
		log.Fatal(err)
	}
	call(os.Args[2], os.Args[3], calls, inFlight)
}
