// Written by gpulab (role jupyter); changes made by hand are lost.
'use strict';
// Node takes the name that a certificate has to have from the browser's Host header, which the proxy passes on. Hub and
// servers have certificates for the addresses where they listen: without a name, node compares the address.
const http = require('http');
const https = require('https');

https.Agent.prototype.addRequest = function addRequest(request, options, ...others) {
  return http.Agent.prototype.addRequest.call(this, request, { ...options, servername: '' }, ...others);
};
